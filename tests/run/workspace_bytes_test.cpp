// How much GPU memory a whole model's operations need between ranks: docs/serving.md says it.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>

#include "run/between_ranks.h"
#include "stretto/lower.h"

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
  size_t of_each = 0, of_all = 0, slots = 0;
  for (const Linear& linear : kLinears) {
    const BetweenRanks bytes = of_operation(memory_of_buckets(
        {linear.kind, kRows, linear.n, linear.k, ranks, DType::bf16}, machine, tuning));
    of_each += bytes.workspace;
    of_all = std::max(of_all, bytes.workspace);
    slots += bytes.slots;
  }
  std::cout << ranks << " ranks: " << of_each / kMiB << " MiB, each operation its own; "
            << of_all / kMiB << " MiB in turns; slots " << slots / kMiB << " MiB\n";
  EXPECT_LE(of_each + slots, 2048 * kMiB);
  EXPECT_GT(slots, 0u);
  EXPECT_GT(of_all, 0u);
}

INSTANTIATE_TEST_SUITE_P(Ranks, WorkspaceOf, testing::Values(2, 4, 8),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace stretto::runtime
