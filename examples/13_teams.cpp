// A hierarchical all-reduce by two teams of each rank: those of its node, and those with its number
// on every node (its rail). Nodes of two or of four ranks; between nodes only puts go, and only a
// node's share of the data.
//
//   1  each rank puts slice i of its data to rank i of its node, which adds up what came
//   2  ranks of a rail collect each other's sums of their slice, and add those up
//   3  ranks of a node collect each other's slices
//
// The emulator says that no schedule of it goes wrong, and what is missing when step 1 meets in the
// wrong team.
#include "expect.h"
#include "stretto/device/lang/shmem.h"
#include "stretto/error.h"
#include "stretto/fibre/explore.h"

using namespace stretto;
using device::Ptr;
using device::Shmem;
using device::Team;
using device::uint64;

template <class Block>
struct HierarchicalArgs {
  Ptr<Block, const uint64> input;  // local: slice x ranks of a node
  Ptr<Block, uint64> parts;        // symmetric: slice x ranks of a node
  Ptr<Block, uint64> sum;          // symmetric: slice
  Ptr<Block, uint64> sums;         // symmetric: slice x nodes
  Ptr<Block, uint64> output;       // symmetric: slice x ranks of a node
  uint64 slice;
  int ranks_per_node;
  bool meet_on_the_rail;  // the mistake: step 1 ends among ranks that have sent each other nothing
};

// out[i] = the sum of `count` rows of `width`.
template <class Block>
STRETTO_KERNEL void add_rows(Block& block, Ptr<Block, const uint64> rows, int count, uint64 width,
                             Ptr<Block, uint64> out) {
  for (auto i = static_cast<uint64>(block.thread_idx()); i < width;
       i += static_cast<uint64>(block.num_threads())) {
    uint64 sum = 0;
    for (int r = 0; r < count; ++r) {
      const uint64 value = rows[static_cast<uint64>(r) * width + i];
      sum += value;
    }
    out[i] = sum;
  }
  block.sync();
}

template <class Block>
STRETTO_KERNEL void hierarchical_all_reduce(Block& block, const HierarchicalArgs<Block>& args) {
  Shmem shmem(block);
  const int local = args.ranks_per_node;
  const int nodes = shmem.n_pes() / local;
  Team node, rail;
  const int first = shmem.my_pe() / local * local;
  shmem.team_split_strided(device::team_world(), first, 1, local, &node);
  shmem.team_split_strided(device::team_world(), shmem.my_pe() % local, local, nodes, &rail);

  const auto me = static_cast<uint64>(shmem.team_my_pe(node));
  for (int i = 0; i < local; ++i) {
    shmem.putmem_block(
        args.parts + me * args.slice, args.input + static_cast<uint64>(i) * args.slice,
        args.slice * sizeof(uint64), shmem.team_translate_pe(node, i, device::team_world()));
  }
  if (!shmem.barrier_block(args.meet_on_the_rail ? rail : node)) return;
  add_rows<Block>(block, args.parts, local, args.slice, args.sum);
  if (!shmem.fcollect_block(rail, args.sums, args.sum, args.slice)) return;
  add_rows<Block>(block, args.sums, nodes, args.slice, args.sum);
  shmem.fcollect_block(node, args.output, args.sum, args.slice);
}

void scenario(fibre::World& world, bool mistake) {
  constexpr uint64 kSlice = 4;
  const int ranks = world.shape().ranks;
  const int local = world.shape().ranks_per_node;
  if (ranks % local != 0) throw UsageError("nodes of fewer ranks");
  const uint64 all = kSlice * static_cast<uint64>(local);
  auto input = world.local<uint64>("input", all);
  auto parts = world.symmetric<uint64>("parts", all);
  auto sum = world.symmetric<uint64>("sum", kSlice);
  auto sums = world.symmetric<uint64>("sums", kSlice * static_cast<uint64>(ranks / local));
  auto output = world.symmetric<uint64>("output", all);
  for (int r = 0; r < ranks; ++r) {
    for (uint64 i = 0; i < all; ++i) input.set(r, i, static_cast<uint64>(r + 1) * (i + 1));
  }
  world.launch([=](fibre::Block& block) {
    const int r = block.rank();
    hierarchical_all_reduce(
        block, HierarchicalArgs<fibre::Block>{input.at(r), parts.at(r), sum.at(r), sums.at(r),
                                              output.at(r), kSlice, local, mistake});
  });
  if (!world.run()) return;
  const auto of_all = static_cast<uint64>(ranks * (ranks + 1) / 2);
  for (int r = 0; r < ranks; ++r) {
    for (uint64 i = 0; i < all; ++i) {
      world.expect(output.get(r, i) == of_all * (i + 1), "a sum is wrong");
    }
  }
}

int main() {
  return run_example([] {
    for (const int local : {2, 4}) {
      const fibre::Shape shape{.ranks = 2 * local, .threads = 4, .ranks_per_node = local};
      const auto good = fibre::explore(shape, [](fibre::World& world) { scenario(world, false); },
                                       {.num_seeds = 50});
      if (good.failure) fmt::print("{}", good.failure->to_text());
      expect(!good.failure, "every schedule gives the sums of all ranks");
      fmt::print("2 nodes x {} ranks: {} schedules, nothing found\n", local, good.seeds_run);
    }
    const auto bad = fibre::explore({.ranks = 4, .threads = 4, .ranks_per_node = 2},
                                    [](fibre::World& world) { scenario(world, true); });
    expect(bad.failure.has_value(), "a meeting of the wrong team is found");
    fmt::print("{}", bad.failure->to_text());
  });
}
