// Partitions by expert in steps of parts, of the choices and of the entries.
#include <gtest/gtest.h>

#include <vector>

#include "routing_cases.h"
#include "stretto/device/make_partition.h"
#include "worker_threads.h"

namespace stretto::device {
namespace {

template <class Worker = LoneWorker>
Made run_in_parts(const Case& of, int first, int experts, int entry_rows, int workers, int parts,
                  int fills, int spare = 0) {
  const std::vector<int32> ids(of.ids.begin(), of.ids.end());
  const auto count = static_cast<int>(ids.size()), columns = experts + 1;
  const int entries = most_entries(count, experts, entry_rows) + spare;
  Made to{std::vector<int32>(size_t(entries) * size_t(entry_rows), kUntouched),
          std::vector<int32>(size_t(entries), kUntouched),
          std::vector<int32>(ids.size(), kUntouched), std::vector<int32>(size_t(experts))};
  const int step = columns + 3;
  std::vector<int32> counts(size_t(parts) * size_t(step), kUntouched);
  std::vector<int32> scratch(size_t(partition_scratch(experts, workers)) + 1, kUntouched);
  const auto at = [](int all, int part, int of_parts) { return all * part / of_parts; };
  const auto choices = [&](int part) {
    const int begin = at(count, part, parts);
    return Choices<int32>{
        ids.data() + begin, at(count, part + 1, parts) - begin, 1, of.experts, first, experts};
  };
  for (int part = 0; part < parts; ++part) {
    int32* const row = counts.data() + part * step;
    by_workers<Worker>(workers, [&](int worker, const auto& meet) {
      make_partition<Worker>(choices(part), {1, 0, nullptr, nullptr, nullptr, row, row + experts},
                             scratch.data(), PartitionTeam{worker, workers, meet});
    });
    EXPECT_EQ(row[columns], kUntouched) << "written out of bounds";
  }
  for (int part = 0; part < parts; ++part) {
    const PartCounts of_parts{counts.data(), step, parts, part};
    by_workers<Worker>(workers, [&](int worker, const auto& meet) {
      make_partition<Worker>(
          choices(part),
          {entry_rows, 0, nullptr, nullptr, to.row_of_choice.data() + at(count, part, parts),
           nullptr, nullptr, of_parts},
          scratch.data(), PartitionTeam{worker, workers, meet});
    });
  }
  for (int fill = 0; fill < fills; ++fill) {
    const int begin = at(entries, fill, fills), end = at(entries, fill + 1, fills);
    const bool counts_too = fill == 0;
    by_workers<Worker>(workers, [&](int worker, const auto& meet) {
      fill_entries<Worker>(
          {{counts.data(), step, parts}, experts, to.row_of_choice.data(), count}, begin,
          {entry_rows, end - begin, to.tokens.data() + begin * entry_rows,
           to.expert_of_entry.data() + begin, nullptr,
           counts_too ? to.rows_of_expert.data() : nullptr, counts_too ? &to.bad_ids : nullptr},
          scratch.data(), PartitionTeam{worker, workers, meet});
    });
  }
  EXPECT_EQ(scratch.back(), kUntouched);
  for (int32& choice : to.tokens) choice = choice < 0 ? choice : choice / of.top_k;
  return to;
}

TEST(PartitionSteps, OfPartsMakeTheSame) {
  for (const Case& one : cases()) {
    for (const int parts : {1, 2, 9, 17}) {
      const Made right = expected(one, 0, one.experts, 16);
      EXPECT_EQ(run_in_parts(one, 0, one.experts, 16, 3, parts, 4), right)
          << one.name << " " << parts;
      if (one.experts % 4 != 0) continue;
      const int own = one.experts / 4;
      EXPECT_EQ(run_in_parts(one, own, own, 8, 2, parts, 3, 2), expected(one, own, own, 8, 2))
          << one.name << " " << parts;
    }
    EXPECT_EQ((run_in_parts<TeamWorker>(one, 0, one.experts, 16, 2, 3, 2)),
              expected(one, 0, one.experts, 16))
        << one.name;
  }
}

}  // namespace
}  // namespace stretto::device
