// How much GPU memory a whole model's operations need between ranks: docs/serving.md says it.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>

#include "run/plan_memory.h"
#include "stretto/buckets.h"
#include "stretto/lower.h"
#include "stretto/tune.h"

namespace stretto::runtime {
namespace {

struct Linear {
  ProductKind kind;
  int64_t n, k;
};
// A model of 70 billion parameters: query, key and value; output; gate and up; down. Each is one
// operation for all of its 80 layers.
constexpr Linear kLinears[] = {
    {kAgGemm, 10240, 8192}, {kGemmRs, 8192, 8192}, {kAgGemm, 57344, 8192}, {kGemmRs, 8192, 28672}};
constexpr int64_t kRows = 8192;
constexpr size_t kMiB = size_t{1} << 20;

class WorkspaceOf : public testing::TestWithParam<int> {};

TEST_P(WorkspaceOf, ALargeModelIsTwoGiBAtTheMost) {
  const int ranks = GetParam();
  const Machine machine = default_machine(ranks);
  const Tuning tuning = shipped_tuning();
  size_t of_each = 0, of_all = 0;
  for (const Linear& linear : kLinears) {
    size_t most = 0;
    Schedule last;
    for (const int64_t rows : buckets_up_to(linear.kind, ranks, kRows)) {
      const Segment op{linear.kind, rows, linear.n, linear.k, ranks, DType::bf16};
      for (const RowsFrom from : {RowsFrom::host, RowsFrom::gpu_memory}) {
        const Schedule schedule = served_schedule(op, machine, tuning, from).schedule;
        // The same for memory as for the host: the same plan. Of few rows there are many buckets.
        if (from == RowsFrom::gpu_memory && schedule == last) continue;
        last = schedule;
        most = std::max(most, bytes_between_ranks(lower(op, schedule, machine)));
      }
    }
    of_each += most;
    of_all = std::max(of_all, most);
  }
  std::cout << ranks << " ranks: " << of_each / kMiB << " MiB, each operation its own; "
            << of_all / kMiB << " MiB in turns\n";
  EXPECT_LE(of_each, 2048 * kMiB);
  EXPECT_GT(of_all, 0u);
}

INSTANTIATE_TEST_SUITE_P(Ranks, WorkspaceOf, testing::Values(2, 4, 8),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace stretto::runtime
