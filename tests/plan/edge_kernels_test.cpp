// Collectives that a kernel of the graph's makes: their text, and what is wrong with them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "edge_kernel_graphs.h"
#include "plan/kernel_calls.h"
#include "refusal.h"

namespace stretto {
namespace {

using testing::HasSubstr;

constexpr const char* kCall =
    "collective all_reduce 0 kernel=ring_sum y_part[0:24,0:48] -> "
    "y[0:24,0:48]";

std::string ring_text() { return print(plan_by_kernel(kRingGraph, "ring_sum", 24, 2)); }

std::string edited(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(EdgeKernelCalls, SayTheirKernelAndReadBack) {
  const std::string text = ring_text();
  EXPECT_THAT(text, HasSubstr("| kernel ring_sum all-reduce \"ring_sum.h\" slots=2*ranks "
                              "signals=16\n"));
  EXPECT_THAT(text, HasSubstr(std::string("  ") + kCall + "\n"));
  const Plan read = parse_plan(text);
  EXPECT_EQ(print(read), text);
  EXPECT_TRUE(any_kernel_calls(read));
  EXPECT_FALSE(any_by_nccl(read));
  EXPECT_TRUE(any_by_language(read));
}

TEST(EdgeKernelCalls, OfUnknownKernelsAndOtherEdgesAreRefused) {
  const std::string text = ring_text();
  const auto refused = [&](const std::string& from, const std::string& to) {
    return refusal(edited(text, from, to));
  };
  EXPECT_THAT(refused("0 kernel=ring_sum", "0 kernel=other"),
              HasSubstr("one of the graph's kernels"));
  EXPECT_THAT(refused("all_reduce 0 kernel=ring_sum", "all_reduce 0 team=1 kernel=ring_sum"),
              HasSubstr("expected kernel ring_sum to join all ranks, found team=1"));
  EXPECT_THAT(refused("collective all_reduce 0", "collective reduce_scatter 0"),
              HasSubstr("expected reduce_scatter with 2 ranks"));
  EXPECT_THAT(refused("kernel ring_sum all-reduce", "kernel ring_sum gather"),
              HasSubstr("expected kernel ring_sum to make all_gather, found all_reduce"));
  EXPECT_THAT(refused("sms ", "collectives low-latency\nsms "),
              HasSubstr("expected no kernel=ring_sum in a plan with 'collectives low-latency'"));
  EXPECT_THAT(refused("-> y[0:24,0:48]", "-> y_part[0:24,0:48]"),
              HasSubstr("expected kernel ring_sum to write other memory than it reads"));
  EXPECT_THAT(refused("y_part[0:24,0:48] -> y[0:24,0:48]", "y_part[0:3,0:47] -> y[0:3,0:47]"),
              HasSubstr("expected kernel ring_sum to move multiples of 16 bytes"));
}

TEST(EdgeKernelCalls, HavePartsOfRanks) {
  const auto sizes_of_call = [](const char* graph, int64_t rows, int ranks) {
    const Plan plan = plan_by_kernel(graph, "k", rows, ranks);
    for (const Lane& lane : plan.lanes) {
      for (const Instr& instr : lane.instrs) {
        if (instr.kernel() > 0) return kernel_call_sizes(plan, instr);
      }
    }
    return KernelCallSizes{};
  };
  // Rows of 48, 32 and 32 elements of 2 bytes.
  EXPECT_EQ(sizes_of_call(kRingGraph, 37, 3), (KernelCallSizes{74, 222}));
  EXPECT_EQ(sizes_of_call(kGatherGraph, 37, 3), (KernelCallSizes{13 * 4, 37 * 4}));
  EXPECT_EQ(sizes_of_call(kScatterGraph, 3, 8), (KernelCallSizes{4, 12}));
}

// Parts but the last are as large as the first.
TEST(EdgeKernelCalls, OfUnevenPartsAreRefused) {
  const std::string text = print(plan_by_kernel(kGatherGraph, "k", 24, 3));
  const std::string uneven =
      edited(edited(text, "ag[0:8,0:32] ag[8:16,0:32]", "ag[0:8,0:32] ag[8:15,0:32]"),
             "x[0:8,0:32] ->", "x[0:8,0:32] ->");
  EXPECT_THAT(refusal(uneven), HasSubstr("expected parts of 512 bytes but for the last, found 448 "
                                         "bytes of rank 1"));
}

}  // namespace
}  // namespace stretto
