// Rows of results of experts beside the reference: what is right passes, and a slip is found.
#include "measure/row_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "lower/plan_of_operator.h"
#include "measure/expert_rows.h"
#include "stretto/call.h"
#include "stretto/emulate.h"

namespace stretto::runtime {
namespace {

// What the emulator makes of the check's inputs, by output and rank.
RowCheck::Outputs outputs_of(const Plan& plan, RowCheck& check) {
  const Operator& op = plan.op;
  const std::vector<CallerTensor> tensors = caller_tensors(op);
  std::vector<std::vector<std::vector<std::byte>>> memory(static_cast<size_t>(op.ranks));
  std::vector<std::vector<CallTensor>> calls(memory.size());
  for (int rank = 0; rank < op.ranks; ++rank) {
    auto& own = memory[static_cast<size_t>(rank)];
    own.reserve(tensors.size());
    for (const CallerTensor& one : tensors) {
      const Tensor& tensor = op.tensor(one.tensor);
      const Slice slice = slice_of(op, one.tensor, one.held, rank);
      own.push_back(one.is_output ? std::vector<std::byte>(static_cast<size_t>(
                                        slice.rows() * slice.cols() * num_bytes(tensor.dtype)))
                                  : *check.input(one.tensor, rank));
      calls[static_cast<size_t>(rank)].push_back(
          {tensor.name, reinterpret_cast<uintptr_t>(own.back().data())});
    }
  }
  execute(plan, calls);
  RowCheck::Outputs outputs;
  for (size_t t = 0; t < tensors.size(); ++t) {
    if (!tensors[t].is_output) continue;
    auto& of = outputs.emplace_back();
    for (auto& own : memory) of.push_back(own[t]);
  }
  return outputs;
}

class RowCheckOf : public testing::TestWithParam<const char*> {
 protected:
  const Plan plan_ = plan_of_operator(GetParam(), "sequential");
};

TEST_P(RowCheckOf, PassesWhatIsRightAndFindsASlip) {
  RowCheck check(plan_.op, bench_data({RoutingKind::zipf, nullptr}));
  RowCheck::Outputs outputs = outputs_of(plan_, check);
  const RowCheck::Found right = check.compare(plan_, 0, outputs);
  EXPECT_EQ(right.wrong_elements, 0) << right.first_wrong;
  EXPECT_GT(right.worst_error, 0);
  EXPECT_LT(right.worst_error, 1);
  outputs[0].back().back() ^= std::byte{0x40};  // the exponent of the last element
  const RowCheck::Found wrong = check.compare(plan_, 0, outputs);
  EXPECT_EQ(wrong.wrong_elements, 1);
  EXPECT_NE(wrong.first_wrong, "");
}

INSTANTIATE_TEST_SUITE_P(
    Operators, RowCheckOf,
    testing::Values("moe-tp t=96 h=64 f=64 experts=4 k=2 ranks=2 dtype=bf16",
                    "moe-tp-up t=96 h=64 f=64 experts=4 k=2 ranks=2 dtype=bf16",
                    "moe-tp-down t=96 h=64 f=64 experts=4 k=2 ranks=2 dtype=bf16",
                    "moe-tp-down-ar t=96 h=64 f=64 experts=4 k=2 ranks=2 dtype=bf16",
                    "moe-ep t=96 h=64 f=64 experts=5 k=2 ranks=2 dtype=bf16",
                    "moe-ep-shared t=96 h=64 f=64 s=64 experts=4 k=2 ranks=2 dtype=bf16",
                    "moe-ep-slices t=96 h=64 f=64 experts=4 k=2 slices=2 ranks=2 dtype=bf16",
                    "moe-ep-router t=96 h=64 f=64 experts=4 k=2 ranks=2 dtype=bf16",
                    "moe-tp-router t=96 h=64 f=64 experts=4 k=2 ranks=1 dtype=fp16"));

TEST(RowCheck, OfALargeOperatorHasTheEndsAndSomeBetween) {
  const Operator op = parse_operator("moe-ep t=4096 h=64 f=64 experts=4 k=2 ranks=2 dtype=bf16");
  const auto all = RowCheck(op, bench_data({})).blocks();
  EXPECT_EQ(all.front().first, 0);
  EXPECT_EQ(all.back().second, 4096);
  EXPECT_EQ(all.size(), 16u);
  const auto some = RowCheck(op, bench_data({}), 1e6).blocks();
  EXPECT_EQ(some.size(), 4u);
  EXPECT_EQ(some[0], (std::pair<int64_t, int64_t>{0, 16}));
  EXPECT_EQ(some[1], (std::pair<int64_t, int64_t>{4080, 4096}));
  for (const auto& [first, last] : some) EXPECT_EQ(last - first, 16);
}

}  // namespace
}  // namespace stretto::runtime
