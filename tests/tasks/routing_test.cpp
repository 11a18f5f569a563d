// Partitions by expert against what a few lines say that they are.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "routing_cases.h"
#include "stretto/device/make_partition.h"
#include "worker_threads.h"

namespace stretto::device {
namespace {

template <typename Id, class Worker = LoneWorker>
Made run(const Case& of, int first, int experts, int entry_rows, int workers, int spare = 0,
         bool as_task = false) {
  const std::vector<Id> ids(of.ids.begin(), of.ids.end());
  const int entries = most_entries(of.tokens * of.top_k, experts, entry_rows) + spare;
  Made to{std::vector<int32>(size_t(entries) * size_t(entry_rows) + 1, kUntouched),
          std::vector<int32>(size_t(entries) + 1, kUntouched),
          std::vector<int32>(ids.size() + 1, kUntouched),
          std::vector<int32>(size_t(experts) + 1, kUntouched)};
  std::vector<int32> scratch(size_t(partition_scratch(experts, workers)) + 1, kUntouched);
  const Choices<Id> choices{ids.data(), of.tokens, of.top_k, of.experts, first, experts};
  const TaskChoices of_task{
      {reinterpret_cast<const int32*>(ids.data()), of.tokens, of.top_k, of.experts, first, experts},
      sizeof(Id) == 8};
  const Partition partition{entry_rows,
                            entries,
                            to.tokens.data(),
                            to.expert_of_entry.data(),
                            to.row_of_choice.data(),
                            to.rows_of_expert.data(),
                            &to.bad_ids};
  by_workers<Worker>(workers, [&](int worker, const auto& meet) {
    const PartitionTeam team{worker, workers, meet};
    if (as_task) {
      make_partition<Worker>(of_task, partition, scratch.data(), team);
    } else {
      make_partition<Worker>(choices, partition, scratch.data(), team);
    }
  });
  EXPECT_EQ(scratch.back(), kUntouched);
  for (std::vector<int32>* one :
       {&to.tokens, &to.expert_of_entry, &to.row_of_choice, &to.rows_of_expert}) {
    EXPECT_EQ(one->back(), kUntouched) << "written out of bounds";
    one->pop_back();
  }
  return to;
}

TEST(Routing, PartitionsAreThoseOfTheDefinition) {
  for (const Case& one : cases()) {
    for (const int entry_rows : {1, 16, 64}) {
      const Made right = expected(one, 0, one.experts, entry_rows);
      for (const int workers : {1, 3, 16, 37}) {
        EXPECT_EQ(run<int32>(one, 0, one.experts, entry_rows, workers), right)
            << one.name << " " << entry_rows << " " << workers;
      }
      EXPECT_EQ((run<long long>(one, 0, one.experts, entry_rows, 2)), right) << one.name;
      EXPECT_EQ((run<long long>(one, 0, one.experts, entry_rows, 2, 0, true)), right) << one.name;
      EXPECT_EQ((run<int32>(one, 0, one.experts, entry_rows, 2, 0, true)), right) << one.name;
    }
  }
}

TEST(Routing, WorkersOfSeveralLanesMakeTheSame) {
  for (const Case& one : cases()) {
    const Made right = expected(one, 0, one.experts, 16);
    for (const int workers : {1, 3}) {
      EXPECT_EQ((run<int32, TeamWorker>(one, 0, one.experts, 16, workers)), right)
          << one.name << " " << workers;
    }
    if (one.experts % 4 != 0) continue;
    const int own = one.experts / 4;
    EXPECT_EQ((run<int32, TeamWorker>(one, own, own, 8, 2, 2)), expected(one, own, own, 8, 2))
        << one.name;
  }
}

// None is an expert's, whatever its lower half says.
TEST(Routing, IdsBeyond32BitsAreBad) {
  Case one{"wide", 5, 2, 4, {}};
  constexpr int64_t kMore = int64_t{1} << 32;
  one.ids = {0, kMore + 1, 3, -1, kMore - 1, kMore, -kMore, -kMore + 2, 2 * kMore + 3, 1};
  const Made right = expected(one, 0, 4, 8);
  EXPECT_EQ(right.bad_ids, 6);
  EXPECT_EQ((run<long long>(one, 0, 4, 8, 3)), right);
  EXPECT_EQ((run<long long>(one, 0, 4, 8, 3, 0, true)), right);
  EXPECT_EQ((run<long long, TeamWorker>(one, 0, 4, 8, 3, 0, true)), right);
}

TEST(Routing, ARankPlacesItsOwnExpertsOnly) {
  for (const Case& one : cases()) {
    if (one.experts % 4 != 0) continue;
    const int own = one.experts / 4;
    for (int rank = 0; rank < 4; ++rank) {
      EXPECT_EQ(run<int32>(one, rank * own, own, 8, 3, 2), expected(one, rank * own, own, 8, 2))
          << one.name << " rank " << rank;
    }
  }
}

// As it may be of memory that another run writes already, since this one was given up.
TEST(Routing, NothingIsWrittenOutsideWhereIdsChangeMeanwhile) {
  constexpr int kTokens = 64, kExperts = 4, kEntryRows = 16;
  for (int changed_at = 1; changed_at <= 4; ++changed_at) {
    std::vector<int32> ids(kTokens);
    for (int i = 0; i < kTokens; ++i) ids[size_t(i)] = i % kExperts;
    const int entries = kTokens / kEntryRows;
    std::vector<int32> tokens(size_t(kTokens) + 64, kUntouched), experts(size_t(entries) + 1);
    std::vector<int32> rows(kTokens), counts(kExperts);
    std::vector<int32> scratch(static_cast<size_t>(partition_scratch(kExperts, 1)));
    int32 bad_ids = 0;
    int met = 0;
    make_partition(Choices<int32>{ids.data(), kTokens, 1, kExperts, 0, kExperts},
                   Partition{kEntryRows, entries, tokens.data(), experts.data(), rows.data(),
                             counts.data(), &bad_ids},
                   scratch.data(),
                   PartitionTeam{0, 1, [&] {
                                   if (++met == changed_at)
                                     std::fill(ids.begin(), ids.end(), kExperts - 1);
                                 }});
    EXPECT_EQ(met, 4);
    for (size_t i = kTokens; i < tokens.size(); ++i) EXPECT_EQ(tokens[i], kUntouched);
  }
}

TEST(Routing, SomeRoutingNeedsAllEntriesAndNoneMore) {
  for (const int experts : {1, 3, 24}) {
    for (const int choices : {0, 1, 2, 23, 24, 25, 100, 900}) {
      for (const int entry_rows : {1, 2, 16, 64}) {
        // As many experts as can have a choice have one more than whole entries.
        const int used = std::min(experts, choices);
        const int entries = most_entries(choices, experts, entry_rows);
        const int others = used == 0 ? 0 : (choices - (used - 1) + entry_rows - 1) / entry_rows;
        EXPECT_EQ(entries, std::max(0, used - 1) + others);
        EXPECT_LE(entries, (choices + entry_rows - 1) / entry_rows + experts);
      }
    }
  }
}

}  // namespace
}  // namespace stretto::device
