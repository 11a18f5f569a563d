// All-to-alls and look-ups through the public interface, on ranks of GPUs of their own or of one:
// tensors with each call, of columns and tables that ranks do not divide too.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "run/gpu_plans.h"
#include "serve/graph_tensors.h"
#include "stretto/context.h"

namespace stretto {
namespace {

// The operator, and the ranks.
class ExchangesOnGpus : public testing::TestWithParam<std::tuple<const char*, int>> {
 protected:
  void SetUp() override {
    if (const std::string why = runtime::why_not_here(ranks_); !why.empty()) STRETTO_SKIP(why);
    context_ = std::make_unique<Context>(ranks_, 2);
  }

  const int ranks_ = std::get<1>(GetParam());
  std::unique_ptr<Context> context_;
};

TEST_P(ExchangesOnGpus, AreRightOnTensorsOfEachCall) {
  const Operator op =
      parse_operator(fmt::format("{} ranks={} dtype=bf16", std::get<0>(GetParam()), ranks_));
  std::vector<std::string> schedules = {"auto", "tiles", "slices"};
  // NCCL serves one rank a GPU.
  if (ranks_ == 1 || cuda::ranks_a_gpu() == 1) schedules.emplace_back("sequential");
  for (const std::string& schedule : schedules) {
    SCOPED_TRACE(schedule);
    Operation operation(*context_, op, {.schedule = schedule, .rows = RowCount::fixed});
    std::vector<std::unique_ptr<TensorMemory>> layers;
    for (uint64_t layer = 0; layer < 3; ++layer) {
      layers.push_back(std::make_unique<TensorMemory>(*context_, operation));
      write_inputs(*context_, op, *layers.back(), {Fill::random, layer + 1});
    }
    for (int round = 0; round < 3; ++round) {
      for (const auto& layer : layers) {
        for (int rank = 0; rank < ranks_; ++rank) {
          operation.run(rank, context_->stream(rank), op.rows(), layer->of(rank));
        }
      }
    }
    operation.finish();
    for (uint64_t layer = 0; layer < 3; ++layer) {
      EXPECT_EQ(wrong_elements(*context_, op, *layers[layer], {Fill::random, layer + 1}), 0);
    }
    EXPECT_EQ(operation.bad_ids(), 0u);
  }
}

// Of each rank's own tables, in all runs.
TEST_P(ExchangesOnGpus, CountIndicesThatAreNoRows) {
  const Operator op =
      parse_operator(fmt::format("{} ranks={} dtype=bf16", std::get<0>(GetParam()), ranks_));
  if (!op.find_tensor("ids")) GTEST_SKIP() << "nothing is looked up";
  Operation operation(*context_, op, {.schedule = "tiles", .rows = RowCount::fixed});
  const TensorMemory memory(*context_, operation);
  const InputData data = {Fill::random, 1};
  write_inputs(*context_, op, memory, data);
  const int32_t bad[] = {-2, 1 << 30};
  for (int rank = 0; rank < ranks_; ++rank) {
    context_->copy_to_gpu(rank, memory.at(rank, "ids"), bad, sizeof(bad));
    for (int run = 0; run < 2; ++run) {
      operation.run(rank, context_->stream(rank), op.rows(), memory.of(rank));
    }
  }
  operation.finish();
  EXPECT_EQ(operation.bad_ids(), static_cast<uint64_t>(4 * ranks_));
}

INSTANTIATE_TEST_SUITE_P(
    Operations, ExchangesOnGpus,
    testing::Combine(testing::Values("gemm-a2a m=517 n=768 k=512", "a2a-gemm m=517 n=512 k=768",
                                     "gemm-a2a m=300 n=704 k=256", "a2a-gemm m=300 n=256 k=704",
                                     "embedding-a2a bags=203 tables=7 rows=1000 dim=64 pool=13",
                                     "embedding-a2a-mean bags=61 tables=8 rows=77 dim=10 pool=5"),
                     testing::Values(1, 2, 3)),
    [](const auto& test) {
      std::string name(std::get<0>(test.param));
      for (char& c : name) c = std::isalnum(c) ? c : '_';
      return fmt::format("{}_{}", name, std::get<1>(test.param));
    });

}  // namespace
}  // namespace stretto
