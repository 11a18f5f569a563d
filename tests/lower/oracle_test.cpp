// Executes the lowered tasks one after the other, on integers, for every legal schedule.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/sampling.h"
#include "lower/drafts.h"
#include "lower/sequential_run.h"

namespace stretto {
namespace {

constexpr int64_t kRows[] = {1, 7, 16, 63, 127, 128, 129, 200};

// Every legal schedule with some of the row counts; over all, every row count meets all of them.
void run_all(ProductKind kind, int ranks, int ranks_per_node, size_t rows_each) {
  const Machine machine = small_machine(ranks, 8, ranks_per_node);
  const int64_t n = kind == kAgGemm || kind == kGemmA2a ? 40 * ranks : 72;
  const int64_t k = kind == kAgGemm ? 5 : 3 * ranks;
  const Segment any{kind, 64, n, k, ranks, DType::bf16};
  const std::vector<Schedule> schedules = legal_schedules(any, machine);
  ASSERT_GT(schedules.size(), 30u / kSampleStep);
  size_t next = 0;
  for (const Schedule& schedule : schedules) {
    for (size_t i = 0; i < rows_each; ++i) {
      const Segment op{kind, kRows[next++ % std::size(kRows)], n, k, ranks, DType::bf16};
      const Draft draft = draft_after(op, schedule, machine);
      const std::vector<std::string> faults = run_sequentially(draft).faults;
      ASSERT_TRUE(faults.empty()) << to_string(op) << " " << to_string(schedule) << ": "
                                  << faults.front();
      ASSERT_NO_THROW(validate(draft.plan)) << to_string(op) << " " << to_string(schedule);
    }
    ++next;  // so that a schedule's neighbours meet other rows
  }
}

struct Ranks {
  int ranks, per_node;
};

class EverySchedule : public testing::TestWithParam<std::tuple<ProductKind, Ranks>> {};

TEST_P(EverySchedule, ComputesTheRightOutputOnce) {
  const auto [kind, ranks] = GetParam();
  run_all(kind, ranks.ranks, ranks.per_node, ranks.ranks > 3 ? 2 : 4);
}

std::string case_name(const testing::TestParamInfo<std::tuple<ProductKind, Ranks>>& test) {
  std::string name(to_string(std::get<0>(test.param)));
  std::replace(name.begin(), name.end(), '-', '_');
  const Ranks ranks = std::get<1>(test.param);
  name += "_" + std::to_string(ranks.ranks);
  return ranks.per_node ? name + "_in_nodes_of_" + std::to_string(ranks.per_node) : name;
}

INSTANTIATE_TEST_SUITE_P(
    Lower, EverySchedule,
    testing::Combine(testing::Values(kAgGemm, kGemmRs, kGemmAr, kGemmA2a, kA2aGemm),
                     testing::Values(Ranks{1, 0}, Ranks{2, 0}, Ranks{3, 0}, Ranks{4, 0},
                                     Ranks{8, 0}, Ranks{4, 2}, Ranks{7, 3})),
    case_name);

}  // namespace
}  // namespace stretto
