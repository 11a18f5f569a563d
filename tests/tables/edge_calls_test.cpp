// What kernels of a user's own run as on GPUs, and which cannot; the example's compiles there.
#include "tables/edge_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/file.h"
#include "edge_kernel_graphs.h"
#include "gpu/compiler_fixture.h"
#include "plan/kernel_calls.h"
#include "stretto/error.h"
#include "tables/kernel_set.h"
#include "tables/plan_limits.h"

namespace stretto::cuda {
namespace {

using testing::Contains;
using testing::HasSubstr;

Plan ring(bool has_source = true, DType dtype = DType::bf16, const std::string& more = "") {
  std::string graph = kRingGraph;
  const std::string at = " signals=16";
  graph.replace(graph.find(at), at.size(), at + more);
  Operator op = operator_of(graph, 37, 3, dtype, "ring_sum");
  if (has_source) {
    op = with_kernel_sources(op, [](const EdgeKernel& kernel) {
      return std::make_shared<const std::string>(
          read_file(std::string(STRETTO_TEST_DIR) + "/../../examples/" + kernel.header, 1 << 20));
    });
  }
  const Machine machine = default_machine(3);
  return lower(op, parse_schedules("sequential,kernel=ring_sum", op, machine), machine);
}

const Instr& call_of(const Plan& plan) {
  for (const Lane& lane : plan.lanes) {
    for (const Instr& instr : lane.instrs) {
      if (instr.kernel() > 0) return instr;
    }
  }
  throw UsageError("no call");
}

TEST(EdgeCalls, HaveTheGridAndMemoryOfTheirGraph) {
  const Plan plan = ring(true, DType::fp16, " blocks=24 threads=96");
  EXPECT_EQ(why_no_edge_calls(plan, false), "");
  const EdgeShape shape = edge_shape(plan, call_of(plan), 132);
  EXPECT_EQ(shape.kernel.kernel, "ring_sum<Fp16x8, GpuBlock>");
  EXPECT_EQ(shape.kernel.args, "EdgeArgs<GpuBlock>");
  EXPECT_EQ(shape.blocks, 24);
  EXPECT_EQ(shape.threads, 96);
  EXPECT_EQ(shape.slot_vectors, 6u * 74);
  EXPECT_EQ(shape.signals, 16u);
  EXPECT_EQ(edge_shape(plan, call_of(plan), 5).blocks, 5);
}

// Of a call, a lane has the count, and the shape what the kernel is told of as on the emulator.
TEST(EdgeCalls, AreToldTheSizesOfTheEmulator) {
  for (const auto& [graph, ranks] :
       {std::pair{kRingGraph, 3}, std::pair{kGatherGraph, 3}, std::pair{kScatterGraph, 8}}) {
    const Plan plan = plan_by_kernel(graph, "k", 37, ranks);
    const LowLatencyCall call = low_latency_sizes(plan, call_of(plan));
    EXPECT_EQ(call.kernel, 1u);
    const KernelCallSizes sizes = edge_shape(plan, call_of(plan), 132).sizes;
    EXPECT_EQ(sizes, kernel_call_sizes(plan, call_of(plan)));
    EXPECT_EQ(call.count * num_bytes(call.dtype), sizes.count * kLowLatencyBytes);
  }
}

TEST(EdgeCalls, WithoutAHeaderOrOfRunsOfFewerRowsAreRefused) {
  EXPECT_EQ(why_no_edge_calls(ring(false), false), "");
  EXPECT_EQ(why_no_sources(ring()), "");
  EXPECT_THAT(why_no_sources(ring(false)),
              HasSubstr("kernel ring_sum: the text of its header 'ring_sum.h' was not given"));
  EXPECT_THAT(why_no_edge_calls(ring(), true),
              HasSubstr("kernel ring_sum: it serves no runs of fewer rows"));
  EXPECT_THAT(why_no_edge_calls(ring(true, DType::fp32), false),
              HasSubstr("kernel ring_sum: on GPUs it moves bf16 and fp16, not fp32"));
}

TEST(EdgeCalls, AreAmongTheKernelsOfAPlan) {
  std::vector<std::string> names;
  for (const KernelEntry& one : kernels_of(ring(), "sm_90a", false)) names.push_back(one.name);
  EXPECT_THAT(names, Contains("collective ring_sum<Bf16x8, GpuBlock> of 256 threads"));
}

class EdgeKernelOnGpus : public NeedsCompiler, public testing::WithParamInterface<const char*> {};

TEST_P(EdgeKernelOnGpus, CompilesWithoutSpills) {
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    const Plan plan = ring(true, dtype);
    const EdgeShape shape = edge_shape(plan, call_of(plan), 132);
    expect_no_spills_in_time(shape.kernel.kernel, lang_source(shape.kernel, shape.threads),
                             GetParam());
  }
}

INSTANTIATE_TEST_SUITE_P(Tables, EdgeKernelOnGpus, testing::Values("sm_80", "sm_90a"));

}  // namespace
}  // namespace stretto::cuda
