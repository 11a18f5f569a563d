// Operators of several products through the public interface: their tensors by name, with each
// call.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "run/gpu_plans.h"
#include "run/team_graphs.h"
#include "serve/graph_tensors.h"
#include "stretto/context.h"

namespace stretto {
namespace {

class GraphsOnGpus : public testing::TestWithParam<const char*> {};

constexpr int kRanks = 2;

TEST_P(GraphsOnGpus, AreRightOnTensorsOfEachCall) {
  if (const std::string why = runtime::why_not_here(kRanks); !why.empty()) STRETTO_SKIP(why);
  Context context(kRanks, 2);
  const Operator op = parse_operator(fmt::format("{} ranks={} dtype=bf16", GetParam(), kRanks));
  for (const char* schedule : {"auto", "tiles", "decomposed"}) {
    SCOPED_TRACE(schedule);
    Operation operation(context, op, {.schedule = schedule, .rows = RowCount::fixed});
    std::vector<std::unique_ptr<TensorMemory>> layers;
    for (uint64_t layer = 0; layer < 2; ++layer) {
      layers.push_back(std::make_unique<TensorMemory>(context, operation));
      write_inputs(context, op, *layers.back(), {Fill::random, layer + 1});
    }
    for (int round = 0; round < 2; ++round) {
      for (const auto& layer : layers) {
        for (int rank = 0; rank < kRanks; ++rank) {
          operation.run(rank, context.stream(rank), op.rows(), layer->of(rank));
        }
      }
    }
    operation.finish();
    for (uint64_t layer = 0; layer < 2; ++layer) {
      EXPECT_EQ(wrong_elements(context, op, *layers[layer], {Fill::random, layer + 1}), 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Operators, GraphsOnGpus,
                         testing::Values("mlp m=517 h=512 f=1024", "mlp-gelu m=200 h=512 f=1024",
                                         "mlp-ar m=256 h=512 f=1024",
                                         "gemm-ar-norm m=300 n=512 k=512",
                                         "gemm-rs-norm m=517 n=512 k=512",
                                         "layer m=256 h=512 f=1024 heads=8 kv-heads=4 head-dim=64"),
                         [](const auto& tested) {
                           std::string name(tested.param);
                           name = name.substr(0, name.find(' '));
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

// A library multiplies by gate and up at once where a call's lie behind one another.
TEST(GatesOnGpus, AreRightWhereverTheirWeightsLie) {
  if (const std::string why = runtime::why_not_here(kRanks); !why.empty()) STRETTO_SKIP(why);
  Context context(kRanks, 2);
  const Operator op = parse_operator("mlp m=512 h=512 f=1024 ranks=2 dtype=bf16");
  constexpr size_t kWeightBytes = size_t{1024 / kRanks} * 512 * 2;
  std::vector<GpuAddress> both;
  for (int rank = 0; rank < kRanks; ++rank) {
    both.push_back(context.allocate(rank, 2 * kWeightBytes));
  }
  for (const char* schedule : {"decomposed,gemm=library", "low-latency"}) {
    SCOPED_TRACE(schedule);
    Operation operation(context, op, {.schedule = schedule, .rows = RowCount::fixed});
    const TensorMemory memory(context, operation);
    uint64_t call = 0;
    for (const bool together : {false, true, true, false}) {
      write_inputs(context, op, memory, {Fill::random, ++call});
      for (int rank = 0; rank < kRanks; ++rank) {
        std::vector<CallTensor> tensors(memory.of(rank).begin(), memory.of(rank).end());
        for (CallTensor& one : tensors) {
          if (!together || (one.name != "wg" && one.name != "wu")) continue;
          const GpuAddress at =
              both[static_cast<size_t>(rank)] + (one.name == "wu" ? kWeightBytes : 0);
          std::vector<char> weight(kWeightBytes);
          context.copy_from_gpu(rank, weight.data(), one.address, kWeightBytes);
          context.copy_to_gpu(rank, at, weight.data(), kWeightBytes);
          one.address = at;
        }
        operation.run(rank, context.stream(rank), op.rows(), tensors);
      }
      operation.finish();
      EXPECT_EQ(wrong_elements(context, op, memory, {Fill::random, call}), 0) << together;
    }
  }
}

// A rank's tensors are those of its team.
TEST(GraphsOfTeamsOnGpus, AreRightOnTensorsOfEachCall) {
  for (const auto& [team, ranks] : {std::pair{2, 4}, {4, 8}}) {
    if (const std::string why = runtime::why_not_here(ranks); !why.empty()) STRETTO_SKIP(why);
    Context context(ranks, 2);
    for (const char* name : {"mlp", "sums", "heads", "two_kinds"}) {
      const Operator op = runtime::op_of_teams(runtime::team_graph(name), team, ranks);
      for (const char* schedule : {"auto", "tiles"}) {
        SCOPED_TRACE(to_string(op) + " " + schedule);
        Operation operation(context, op, {.schedule = schedule, .rows = RowCount::fixed});
        const TensorMemory memory(context, operation);
        for (uint64_t call = 1; call <= 2; ++call) {
          write_inputs(context, op, memory, {Fill::random, call});
          for (int rank = 0; rank < ranks; ++rank) {
            operation.run(rank, context.stream(rank), op.rows(), memory.of(rank));
          }
          operation.finish();
          EXPECT_EQ(wrong_elements(context, op, memory, {Fill::random, call}), 0);
        }
      }
    }
  }
}

// The last rank's rows are shorter, so nearer together, for movers too.
TEST(GraphsOnThreeGpus, TakeRowsOfFewerColumns) {
  constexpr int kThree = 3;
  if (const std::string why = runtime::why_not_here(kThree); !why.empty()) STRETTO_SKIP(why);
  const auto graph = parse_graph(
      "graph residual m n k\n"
      "input x [m, k] rows\ninput w [n, k] rows\ninput r [m, n] cols\n"
      "g = gemm x w\ny = add g r\noutput y cols\n");
  const Operator op = make_graph(graph, {{"m", 300}, {"n", 1000}, {"k", 512}}, kThree, DType::bf16);
  Context context(kThree, 2);
  for (const char* schedule : {"tiles", "decomposed,gemm=library"}) {
    SCOPED_TRACE(schedule);
    Operation operation(context, op, {.schedule = schedule, .rows = RowCount::fixed});
    const TensorMemory memory(context, operation);
    write_inputs(context, op, memory, {Fill::random, 1});
    for (int rank = 0; rank < kThree; ++rank) {
      operation.run(rank, context.stream(rank), op.rows(), memory.of(rank));
    }
    operation.finish();
    EXPECT_EQ(wrong_elements(context, op, memory, {Fill::random, 1}), 0);
  }
}

}  // namespace
}  // namespace stretto
