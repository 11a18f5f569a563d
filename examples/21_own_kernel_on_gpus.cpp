// A kernel of one's own from one file, hand_on.h: explored on the emulator, then on GPUs, where it
// is compiled when the program runs. Without GPUs it says so and has shown the first half.
#include <cstdlib>
#include <memory>
#include <vector>

#include "expect.h"
#include "hand_on.h"
#include "stretto/error.h"
#include "stretto/fibre/explore.h"
#include "stretto/kernels.h"

using namespace stretto;
using hand_on_example::HandOnArgs;

constexpr uint32_t kCount = 256;

void on_the_emulator() {
  const fibre::Shape shape{.ranks = 3, .blocks = 1, .threads = 8, .warp_size = 4};
  const auto found = fibre::explore(shape, [](fibre::World& world) {
    auto values = world.local<float>("values", kCount);
    auto inbox = world.symmetric<float>("inbox", kCount, 0.0f);
    auto arrived = world.symmetric<device::uint64>("arrived", 1, 0);
    auto sum = world.local<float>("sum", 1);
    for (int r = 0; r < 3; ++r) {
      for (size_t i = 0; i < kCount; ++i) values.set(r, i, float(r));
    }
    world.launch([=](fibre::Block& block) {
      const int r = block.rank();
      hand_on(block, HandOnArgs<fibre::Block>{values.at(r), inbox.at(r), arrived.at(r), sum.at(r),
                                              kCount, 0});
    });
    if (!world.run()) return;
    for (int r = 0; r < 3; ++r) {
      world.expect(sum.get(r, 0) == float(kCount * ((r + 2) % 3)), "a sum is wrong");
    }
  });
  expect(!found.failure, "the kernel is right under every schedule that was tried");
  fmt::print("emulator: {} schedules, nothing found\n", found.seeds_run);
}

void on_gpus(Context& context) {
  SymmetricHeap heap(context, 1 << 20);
  const size_t values = heap.allocate("values", kCount * sizeof(float));
  const size_t inbox = heap.allocate("inbox", kCount * sizeof(float));
  const size_t arrived = heap.allocate("arrived", sizeof(uint64_t));
  const size_t sum = heap.allocate("sum", sizeof(float));
  const Kernel kernel(
      heap,
      {read_kernel(STRETTO_EXAMPLES "/hand_on.h"), "hand_on_example::hand_on<GpuBlock>",
       "hand_on_example::HandOnArgs<GpuBlock>"},
      128);
  const int ranks = context.ranks(), first = context.first_rank();
  for (int rank = first; rank < first + context.num_local(); ++rank) {
    const std::vector<float> own(kCount, float(rank));
    context.copy_to_gpu(rank, reinterpret_cast<GpuAddress>(heap.at<float>(rank, values)),
                        own.data(), kCount * sizeof(float));
  }
  for (uint64_t call = 0; call < 10; ++call) {
    for (int rank = first; rank < first + context.num_local(); ++rank) {
      kernel.launch(rank, context.stream(rank), 1, 128,
                    HandOnArgs<device::GpuBlock>{heap.at<const float>(rank, values),
                                                 heap.at<float>(rank, inbox),
                                                 heap.at<device::uint64>(rank, arrived),
                                                 heap.at<float>(rank, sum), kCount, call});
    }
  }
  heap.finish();
  for (int rank = first; rank < first + context.num_local(); ++rank) {
    float got = 0;
    context.copy_from_gpu(rank, &got, reinterpret_cast<GpuAddress>(heap.at<float>(rank, sum)),
                          sizeof got);
    expect(got == float(kCount * ((rank + ranks - 1) % ranks)), "a GPU's sum is right");
  }
  if (first == 0) fmt::print("{} GPUs: 10 calls, right\n", ranks);
}

int main(int argc, char** argv) {
  return run_example([&] {
    on_the_emulator();
    std::unique_ptr<Context> context;
    try {
      context = std::make_unique<Context>(argc > 1 ? std::atoi(argv[1]) : 2);
    } catch (const SystemError& error) {
      fmt::print("not on GPUs: {}\n", error.what());
      return;
    }
    on_gpus(*context);
  });
}
