// A kernel in the device language, checked on the emulator: each rank hands its values to the next.
// Then the same kernel with its signal raised too early, and what the emulator says about it.
#include "expect.h"
#include "stretto/device/lang/shmem.h"
#include "stretto/fibre/explore.h"

using namespace stretto;
using device::Compare;
using device::Ptr;
using device::Shmem;
using device::SignalOp;
using device::uint64;

constexpr int kCount = 64;

// Arguments are one struct; Ptr is a raw pointer on the GPU and a checked one on the emulator.
template <class Block>
struct HandOnArgs {
  Ptr<Block, const float> values;  // local
  Ptr<Block, float> inbox;         // symmetric: the same on every rank
  Ptr<Block, uint64> arrived;      // symmetric
  Ptr<Block, float> sum;           // local
  bool signals_early;
};

template <class Block>
STRETTO_KERNEL void hand_on(Block& block, const HandOnArgs<Block>& args) {
  Shmem shmem(block);
  const int next = (shmem.my_pe() + 1) % shmem.n_pes();

  if (args.signals_early) shmem.signal_op_block(args.arrived, 1, SignalOp::kAdd, next);
  shmem.putmem_block(args.inbox, args.values, kCount * sizeof(float), next);
  if (!args.signals_early) shmem.signal_op_block(args.arrived, 1, SignalOp::kAdd, next);

  // Every wait has a deadline. When it has passed, the data is not there, and the kernel leaves.
  if (!shmem.signal_wait_until_block(args.arrived, Compare::kGe, 1)) return;
  if (block.thread_idx() != 0) return;
  float sum = 0;
  for (int i = 0; i < kCount; ++i) sum += args.inbox[i];
  args.sum[0] = sum;
}

// Called once a seed, with a fresh machine.
void scenario(fibre::World& world, bool signals_early) {
  const int ranks = world.shape().ranks;
  auto values = world.local<float>("values", kCount);
  auto inbox = world.symmetric<float>("inbox", kCount, 0.0f);
  auto arrived = world.symmetric<uint64>("arrived", 1, 0);
  auto sum = world.local<float>("sum", 1);
  for (int r = 0; r < ranks; ++r) {
    for (size_t i = 0; i < kCount; ++i) values.set(r, i, float(r));
  }
  world.launch([=](fibre::Block& block) {
    const int r = block.rank();
    hand_on(block, HandOnArgs<fibre::Block>{values.at(r), inbox.at(r), arrived.at(r), sum.at(r),
                                            signals_early});
  });
  if (!world.run()) return;
  for (int r = 0; r < ranks; ++r) {
    world.expect(sum.get(r, 0) == float(kCount * ((r + ranks - 1) % ranks)), "a sum is wrong");
  }
}

int main() {
  return run_example([] {
    const fibre::Shape shape{.ranks = 4, .blocks = 1, .threads = 8, .warp_size = 4};

    const auto clean = fibre::explore(shape, [](fibre::World& w) { scenario(w, false); });
    if (clean.failure) fmt::print("{}", clean.failure->to_text());
    expect(!clean.failure, "the kernel is correct under every schedule that was tried");
    fmt::print("correct kernel: {} schedules, nothing found\n\n", clean.seeds_run);

    const auto early = fibre::explore(shape, [](fibre::World& w) { scenario(w, true); });
    expect(early.failure.has_value(), "signalling before the data is found");
    fmt::print("signal before data:\n{}", early.failure->to_text());
    expect(early.failure->shape.ranks == 2, "two ranks are enough to show it");
  });
}
