// A small all-reduce in which the data says that it has arrived: no flag, no barrier, two
// buffers. Seven calls of different sizes from one device-resident counter, as a captured graph
// would replay.
#include "expect.h"
#include "stretto/device/lang/kernels/all_reduce.h"
#include "stretto/fibre/explore.h"

using namespace stretto;
using device::AllReduceArgs;
using device::Bf16x8;
using device::uint64;
using device::Vec16;

constexpr uint64 kMaxVectors = 16;  // of 8 bf16 values

using Kernel = void (*)(fibre::Block&, const AllReduceArgs<fibre::Block>&);

void scenario(fibre::World& world, Kernel kernel) {
  const int ranks = world.shape().ranks;
  // Slots start as the sentinel: a negative zero, which senders never send.
  auto slots = world.symmetric<Vec16>("slots", 4 * size_t(ranks) * kMaxVectors,
                                      device::four_of(Bf16x8::kPoison));
  auto greetings =
      world.symmetric<Vec16>("greetings", 3 * size_t(ranks), device::four_of(device::kNoGreeting));
  auto state = world.local<uint64>("state", size_t(world.shape().blocks), 0);
  auto data = world.local<Vec16>("data", kMaxVectors);
  for (int r = 0; r < ranks; ++r) {
    float ones[8];
    for (float& one : ones) one = 1.0f;
    for (size_t i = 0; i < kMaxVectors; ++i) data.set(r, i, Bf16x8::round(ones));
  }
  // In place: what was 1 everywhere becomes ranks, ranks^2, ... where calls cover it.
  const uint64 sizes[] = {16, 3, 16, 1, 0, 16, 2};
  for (uint64 size : sizes) {
    world.launch([=](fibre::Block& block) {
      const int r = block.rank();
      kernel(block, AllReduceArgs<fibre::Block>{data.at(r), data.at(r), size, kMaxVectors,
                                                slots.at(r), greetings.at(r), state.at(r)});
    });
  }
  if (!world.run()) return;
  for (int r = 0; r < ranks; ++r) {
    for (size_t i = 0; i < kMaxVectors; ++i) {
      float want = 1;
      for (uint64 size : sizes) want *= i < size ? float(ranks) : 1.0f;
      float got[8] = {};
      Bf16x8::add(got, data.get(r, i));
      for (float value : got) world.expect(value == want, "a sum is wrong");
    }
  }
}

int main() {
  return run_example([] {
    const fibre::Shape shape{.ranks = 4, .blocks = 2, .threads = 4};
    const Kernel one_shot = device::all_reduce_one_shot<Bf16x8, fibre::Block>;
    const Kernel two_shot = device::all_reduce_two_shot<Bf16x8, fibre::Block>;
    for (Kernel kernel : {one_shot, two_shot}) {
      const auto result = fibre::explore(
          shape, [&](fibre::World& world) { scenario(world, kernel); }, {.num_seeds = 30});
      if (result.failure) fmt::print("{}", result.failure->to_text());
      expect(!result.failure, "seven calls in a row give the sums under every schedule");
      fmt::print("{}: seven calls, {} schedules, nothing found\n",
                 kernel == one_shot ? "one-shot" : "two-shot", result.seeds_run);
    }
  });
}
