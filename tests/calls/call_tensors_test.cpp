// Which of a call's tensors are taken where they lie, and what is refused of them. Without a GPU.
#include "calls/call_tensors.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lower/plan_of_operator.h"
#include "plan/shared_buffers.h"
#include "stretto/error.h"

namespace stretto::runtime {
namespace {

using testing::HasSubstr;

uint16_t result_of(const Plan& plan) {
  return *plan.find_buffer(plan.op.tensor(plan.op.outputs[0].tensor).name);
}

// A rank that writes to others does not know how far apart the rows of fewer columns lie.
TEST(WrittenByOthers, HaveAsManyColumnsOnEachRank) {
  Plan plan = plan_of_operator("gemm-ar m=96 n=1008 k=192 ranks=3 dtype=bf16", "tiles");
  const uint16_t out = result_of(plan);
  EXPECT_TRUE(written_by_others(plan)[out]);
  plan.buffers[out].sharded_cols = 1000;
  EXPECT_FALSE(written_by_others(plan)[out]);
}

// Exchanged columns land in memory of the plan's own, and their rank makes the result of them.
TEST(WrittenByOthers, AreNoExchangedColumns) {
  for (const std::string schedule : {"tiles", "slices", "decomposed", "tiles,reuse=ack"}) {
    for (const int n : {1000, 1008}) {
      const Plan plan =
          plan_of_operator(fmt::format("gemm-a2a m=96 n={} k=64 ranks=3 dtype=bf16", n), schedule);
      EXPECT_EQ(plan.buffers[result_of(plan)].sharded_cols, n == 1000 ? 1000 : 0);
      EXPECT_FALSE(shared_buffers(plan)[result_of(plan)]) << schedule << " " << n;
    }
  }
}

// Everything at a place that is fine, rows without gaps.
std::vector<CallTensor> call_of(const Plan& plan) {
  std::vector<CallTensor> call;
  for (const CallerTensor& tensor : caller_tensors(plan.op)) {
    call.push_back({plan.op.tensor(tensor.tensor).name, 0x100000 * (call.size() + 1)});
  }
  return call;
}

class OfFewerColumns : public testing::Test {
 protected:
  // 15 indices a bag on the first rank, 10 on the second.
  const Plan plan_ = plan_of_operator(
      "embedding-a2a bags=64 tables=5 rows=100 dim=16 pool=5 ranks=2 dtype=bf16", "tiles");
  const CallTensors tensors_{plan_, shared_buffers(plan_), false};
  size_t ids_ = 0;
  std::vector<CallTensor> call_ = call_of(plan_);

  void SetUp() override {
    while (tensors_.all().at(ids_).dtype != DType::i32) ++ids_;
  }
};

// Tables are read number by number, whatever the length of their rows, and so are those of a rank
// that has fewer columns than the first.
TEST_F(OfFewerColumns, RowsOfATableHaveAnyLength) {
  for (int rank = 0; rank < 2; ++rank) {
    const auto places = tensors_.places(rank, plan_.op.rows(), call_);
    EXPECT_EQ(places[ids_].row_bytes, (rank == 0 ? 15u : 10u) * 4);
    EXPECT_EQ(places[ids_].solid_bytes, 15u * 4);
  }
}

TEST_F(OfFewerColumns, RowsWithGapsBeginAtMultiplesOf16Bytes) {
  call_[ids_].row_stride = 15;
  try {
    tensors_.places(1, plan_.op.rows(), call_);
    FAIL() << "10 of 15 elements, and rows that begin anywhere";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("begin 15 elements apart: a multiple of 4 is needed"));
  }
}

}  // namespace
}  // namespace stretto::runtime
