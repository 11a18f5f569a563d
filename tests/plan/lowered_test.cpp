// Plans as lowering makes them keep their text through reading and printing.
#include <gtest/gtest.h>

#include <string>

#include "stretto/lower.h"

namespace stretto {
namespace {

TEST(LoweredPlans, PrintAndReadTheSame) {
  for (const Preset& preset : presets()) {
    for (const ProductKind kind : {kAgGemm, kGemmRs, kGemmAr}) {
      for (const int ranks : {1, 2, 3, 8}) {
        const Segment op{kind, 133, int64_t{40} * ranks, int64_t{16} * ranks, ranks, DType::bf16};
        const Machine machine = default_machine(ranks);
        const Plan plan = lower(op, preset.make(op, machine), machine);
        ASSERT_NO_THROW(validate(plan)) << preset.name << " " << to_string(op);
        const std::string text = print(plan);
        const Plan again = parse_plan(text);
        EXPECT_EQ(print(again), text) << preset.name << " " << to_string(op);
        EXPECT_EQ(again.op, plan.op);
        const bool receives = preset.name == "low-latency" || preset.name == "few-rows";
        EXPECT_EQ(again.library_gemms, preset.name == "library" || receives);
        EXPECT_EQ(again.low_latency_collectives, receives);
        EXPECT_EQ(again.few_rows_gemms, plan.few_rows_gemms);
        EXPECT_EQ(again.buffers, plan.buffers);
        EXPECT_EQ(again.signals, plan.signals);
        EXPECT_EQ(again.lanes.size(), plan.lanes.size());
        EXPECT_EQ(again.num_instrs(), plan.num_instrs());
      }
    }
  }
}

TEST(LoweredPlans, KeepTheLibrarysAlgorithm) {
  const Segment op{kGemmRs, 134, 80, 32, 2, DType::bf16};
  const Machine machine = default_machine(2);
  for (const char* text : {"library,algorithm=5", "decomposed,gemm=library,algorithm=5",
                           "low-latency,rows=bucket,algorithm=5"}) {
    const Plan plan = lower(op, parse_schedule(text, op, machine), machine);
    EXPECT_EQ(plan.library_algorithm, 5) << text;
    EXPECT_EQ(parse_plan(print(plan)).library_algorithm, 5) << text;
  }
  EXPECT_EQ(lower(op, parse_schedule("library", op, machine), machine).library_algorithm, 0);
}

}  // namespace
}  // namespace stretto
