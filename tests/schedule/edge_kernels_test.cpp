// kernel=NAME of schedules: its text, and which products and other coordinates it goes with.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "edge_kernel_graphs.h"
#include "schedule/cases.h"
#include "stretto/error.h"

namespace stretto {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::vector<std::string> refused(const char* graph, const char* text, int ranks = 2) {
  const Operator op = operator_of(graph, 24, ranks, DType::bf16, "ring_sum");
  const Machine machine = default_machine(ranks);
  return legal(op, parse_schedules(text, op, machine), machine);
}

TEST(EdgeKernelSchedules, SayTheirKernelWhereThereIsOne) {
  const Segment op = gemm_ar();
  const Machine machine = default_machine(op.ranks);
  const Schedule with = parse_schedule("sequential,kernel=ring_sum", op, machine);
  EXPECT_EQ(with.kernel, "ring_sum");
  EXPECT_THAT(to_string(with), HasSubstr(",kernel=ring_sum"));
  EXPECT_EQ(parse_schedule(to_string(with), op, machine), with);
  const Schedule without = parse_schedule("sequential,kernel=none", op, machine);
  EXPECT_THAT(to_string(without), Not(HasSubstr("kernel")));
  EXPECT_EQ(parse_schedule(to_string(without), op, machine), without);
  EXPECT_THROW(parse_schedule("sequential,kernel=a-b", op, machine), UsageError);
  EXPECT_THROW(parse_schedule("sequential,kernel=", op, machine), UsageError);
}

TEST(EdgeKernelSchedules, ServeTheEdgeThatTheirKernelIsFor) {
  EXPECT_THAT(refused(kRingGraph, "sequential,kernel=ring_sum"), IsEmpty());
  EXPECT_THAT(refused(kRingGraph, "library,kernel=ring_sum"), IsEmpty());
  EXPECT_THAT(refused(kGatherGraph, "sequential,kernel=ring_sum"), IsEmpty());
  EXPECT_THAT(refused(kMixedGraph, "sequential/d:sequential,kernel=to_owners"), IsEmpty());
  EXPECT_THAT(refused(kMixedGraph, "sequential,kernel=to_owners"),
              ElementsAre("u: kernel=to_owners is for the edge reduce-scatter, and this product "
                          "has gather: take kernel=none"));
  EXPECT_THAT(refused(kRingGraph, "sequential,kernel=other"),
              Contains("a: unknown kernel of the graph 'other'; known: ring_sum"));
  const Operator plain = make_operator("gemm-ar", {{"m", 64}, {"n", 64}, {"k", 64}}, 2);
  const Machine machine = default_machine(2);
  EXPECT_THAT(
      legal(plain, parse_schedules("sequential,kernel=r", plain, machine), machine),
      ElementsAre("kernel=r, and gemm-ar names no kernel: a line of its graph would, as: kernel r "
                  "all-reduce \"r.h\""));
}

TEST(EdgeKernelSchedules, TakeThePlaceOfOneCollectiveOfNccls) {
  for (const auto& [text, why] :
       {std::pair{"tiles,kernel=ring_sum", "kernel=ring_sum with mover="},
        std::pair{"two-chunk,kernel=ring_sum",
                  "kernel=ring_sum with granularity=chunk, which cuts collectives into parts: take "
                  "granularity=whole, or kernel=none"},
        std::pair{"low-latency,kernel=ring_sum",
                  "kernel=ring_sum with collectives=low-latency, whose place it takes: take "
                  "collectives=nccl, or kernel=none"},
        std::pair{"sequential,sync=counter,kernel=ring_sum",
                  "kernel=ring_sum with sync=counter, which it knows nothing of: take sync=event, "
                  "or kernel=none"},
        std::pair{"sequential,rows=bucket,kernel=ring_sum",
                  "kernel=ring_sum with rows=bucket, whose runs may have fewer than it is told of: "
                  "take rows=fixed, or kernel=none"}}) {
    EXPECT_THAT(refused(kRingGraph, text), Contains(HasSubstr(why))) << text;
  }
  EXPECT_THAT(reasons("sequential,kernel=k", Segment{kGemmAr, 7, 9, 64, 2}),
              Contains("kernel=k: 7 rows of 18 bytes are no multiple of 16: take kernel=none"));
  EXPECT_THAT(reasons("sequential,kernel=k", Segment{kGemmA2a, 64, 64, 64, 2}),
              Contains("kernel=k: none of them is an all-to-all: take kernel=none"));
}

}  // namespace
}  // namespace stretto
