// Partitions by expert by blocks that read one another's memory.
#include "stretto/device/partition_by_blocks.h"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <memory>
#include <utility>
#include <vector>

#include "routing_cases.h"
#include "worker_threads.h"

namespace stretto::device {
namespace {

// Threads that act as the blocks of a cluster, each with memory of its own.
struct BlocksOfThreads {
  int32 block, blocks, warp, warps;
  std::vector<std::vector<int32>>& memory;
  std::barrier<>&of_block, &of_all;

  void meet() const { of_block.arrive_and_wait(); }
  void meet_all() const { of_all.arrive_and_wait(); }
  void part() const {}
  void end() const { of_all.arrive_and_wait(); }
  const int32* at(int32 other, const int32* totals, int32 column) const {
    return memory[size_t(other)].data() + (totals - memory[size_t(block)].data()) + column;
  }
};

template <class Worker>
Made run_by_blocks(const Case& of, int first, int experts, int entry_rows, int blocks, int warps,
                   int spare = 0) {
  const std::vector<int32> ids(of.ids.begin(), of.ids.end());
  const auto count = static_cast<int>(ids.size()), lanes = Worker::kCount;
  const int entries = most_entries(count, experts, entry_rows) + spare;
  Made to{std::vector<int32>(size_t(entries) * size_t(entry_rows), kUntouched),
          std::vector<int32>(size_t(entries), kUntouched),
          std::vector<int32>(ids.size(), kUntouched), std::vector<int32>(size_t(experts))};
  const auto words =
      static_cast<size_t>(block_partition_scratch(count, experts, blocks, warps, lanes));
  std::vector<std::vector<int32>> memory(size_t(blocks), std::vector<int32>(words + 1, kUntouched));
  std::vector<std::unique_ptr<std::barrier<>>> barriers;
  for (int i = 0; i < blocks; ++i) {
    barriers.push_back(std::make_unique<std::barrier<>>(warps * lanes));
  }
  std::barrier all(blocks * warps * lanes);
  std::atomic<int> tellers = 0;
  const Partition partition{
      entry_rows,
      entries,
      to.tokens.data(),
      to.expert_of_entry.data(),
      to.row_of_choice.data(),
      to.rows_of_expert.data(),
      &to.bad_ids,
  };
  by_workers<Worker>(blocks * warps, [&](int worker, const auto&) {
    const int block = worker / warps;
    make_partition_by_blocks<Worker>(
        Choices<int32>{ids.data(), count, 1, of.experts, first, experts}, partition,
        memory[size_t(block)].data(),
        BlocksOfThreads{block, blocks, worker % warps, warps, memory, *barriers[size_t(block)],
                        all},
        [&](int32 bad) {
          EXPECT_EQ(bad, to.bad_ids);
          ++tellers;
        });
  });
  EXPECT_EQ(tellers, 1);
  for (const std::vector<int32>& of_block : memory) EXPECT_EQ(of_block.back(), kUntouched);
  for (int32& choice : to.tokens) choice = choice < 0 ? choice : choice / of.top_k;
  return to;
}

TEST(PartitionByBlocks, ThatReadOneAnotherMakeTheSame) {
  for (const Case& one : cases()) {
    for (const auto& [blocks, warps] : {std::pair(1, 1), std::pair(1, 3), std::pair(3, 2)}) {
      const Made right = expected(one, 0, one.experts, 16);
      EXPECT_EQ(run_by_blocks<LoneWorker>(one, 0, one.experts, 16, blocks, warps), right)
          << one.name << " " << blocks << " " << warps;
      EXPECT_EQ(run_by_blocks<TeamWorker>(one, 0, one.experts, 16, blocks, warps), right)
          << one.name << " " << blocks << " " << warps;
      if (one.experts % 4 != 0) continue;
      const int own = one.experts / 4;
      EXPECT_EQ((run_by_blocks<TeamWorker>(one, own, own, 8, blocks, warps, 2)),
                expected(one, own, own, 8, 2))
          << one.name;
    }
  }
}

// Beside what else a kernel does at most half of its blocks make one, with two choices a thread.
TEST(PartitionByBlocks, BesideOthersAreAsManyAsAreLeft) {
  EXPECT_EQ(joined_partition_blocks(1, 128), 1);
  EXPECT_EQ(joined_partition_blocks(1024, 128), 1);
  EXPECT_EQ(joined_partition_blocks(1025, 128), 2);
  EXPECT_EQ(joined_partition_blocks(16384, 128), 8);
  EXPECT_EQ(joined_partition_blocks(16384, 8), 4);
  EXPECT_EQ(joined_partition_blocks(16384, 3), 1);
  EXPECT_EQ(joined_partition_blocks(16384, 1), 1);
  EXPECT_TRUE(joined_partition_fits(16384, 512));
  EXPECT_TRUE(joined_partition_fits(40000, 256));
  EXPECT_FALSE(joined_partition_fits(65536, 16));
}

// Where one block has no room for what it keeps more do; and where none has, steps do it.
TEST(PartitionByBlocks, AreAsManyAsSaveTime) {
  EXPECT_EQ(partition_blocks(0, 1), 1);
  EXPECT_EQ(partition_blocks(2048, 256), 1);
  EXPECT_EQ(partition_blocks(2049, 256), 4);
  EXPECT_EQ(partition_blocks(8192, 16), 8);
  EXPECT_EQ(partition_blocks(65536, 256), 8);
  EXPECT_EQ(partition_blocks(1 << 20, 256), 0);
  EXPECT_EQ(partition_blocks(128, 1400), 0);
}

}  // namespace
}  // namespace stretto::device
