// What a run of fewer rows is: whose rows there are, where they lie, and what it refuses.
#include "stretto/serve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lower/plan_of.h"
#include "stretto/check.h"
#include "stretto/emulate.h"
#include "stretto/error.h"
#include "stretto/lower.h"

namespace stretto {
namespace {

using testing::HasSubstr;

std::string refusal(const Plan& plan, int64_t rows) {
  try {
    at_rows(plan, rows);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "served";
}

// Against the operator with so many rows, for every owner and row.
Plan own_plan(std::string_view lines, int ranks = 2) {
  const Operator op = make_graph(parse_graph("graph own m h\n" + std::string(lines)),
                                 {{"m", 12}, {"h", 16}}, ranks, DType::bf16);
  const Machine machine = default_machine(ranks);
  return lower(op, schedule_of(find_preset("tiles"), op, machine), machine);
}

TEST(RunRows, AreThoseOfTheOperatorWithFewerRows) {
  for (const int ranks : {1, 2, 3, 8}) {
    for (const int64_t blocks : {1, 2, 5, 24}) {
      const int64_t bucket = ranks * blocks;
      const RowShards plan{bucket, ranks};
      for (int64_t rows = 1; rows <= bucket; ++rows) {
        const RowShards run{rows, ranks};
        const device::RunRows at(static_cast<int32_t>(rows), ranks,
                                 static_cast<int32_t>(plan.block()));
        for (int owner = 0; owner < ranks; ++owner) {
          const auto size = static_cast<int32_t>(plan.size(owner));
          EXPECT_EQ(at.present(owner, 0, static_cast<int32_t>(plan.block())), run.size(owner));
          for (int32_t first = 0; first < size; ++first) {
            const int32_t present = at.present(owner, first, size - first);
            EXPECT_EQ(present, std::max<int64_t>(0, run.size(owner) - first));
            EXPECT_LE(at.shift(owner), 0);
            if (present == 0) continue;
            EXPECT_EQ(plan.begin(owner) + first + at.shift(owner), run.begin(owner) + first);
          }
        }
      }
    }
  }
}

TEST(RunRows, AllRowsAreThePlanItself) {
  for (const std::string op : {"gemm-rs", "gemm-ar", "ag-gemm"}) {
    for (const std::string preset : {"tiles", "slices"}) {
      const Plan plan =
          plan_of(op + " m=198 n=96 k=96 ranks=3 dtype=bf16", preset + ",rows=bucket,tile=32x32");
      EXPECT_EQ(print(at_rows(plan, 198)), print(plan)) << op << ' ' << preset;
    }
  }
}

// By itself the run of one row would be enqueued in one stream, in which a wait for the sums of
// ranges stands ahead of what it waits for.
TEST(RunRows, AreEnqueuedWithTheProgramOfTheWholePlan) {
  const Segment op = parse_segment("gemm-rs m=7 n=8 k=2177 ranks=7 dtype=bf16");
  Machine machine = default_machine(7);
  machine.sms = 9;
  const Schedule schedule =
      parse_schedule("slices,tile=64x16,comm-sms=1,split-k=5,rows=bucket", op, machine);
  const Plan plan = lower(op, schedule, machine);
  EXPECT_EQ(plan.run_of, 0);
  EXPECT_TRUE(check(plan).clean());
  const Plan run = at_rows(plan, 1);
  EXPECT_EQ(run.run_of, 7);
  EXPECT_FALSE(check(run).clean());
  const CheckReport report = check(run, {.has_whole_plan = true});
  EXPECT_TRUE(report.clean());
  EXPECT_EQ(
      report.no_program,
      "what ranks enqueue for it is the program of the plan for 7 rows, which is proved with that "
      "plan alone");
  EXPECT_EQ(parse_plan(print(run)).run_of, 7);
}

TEST(RunRows, HaveNoRunsThemselves) {
  const Plan plan = plan_of("gemm-rs m=100 n=64 k=64 ranks=4 dtype=bf16",
                            "tiles,rows=bucket,tile=16x64,comm-sms=2");
  EXPECT_THAT(refusal(at_rows(plan, 60), 50),
              HasSubstr("serves 60 rows only: it is itself a run of the plan for 100 rows: take "
                        "that plan"));
}

// What a plan says of itself is not believed where no plan has such runs.
TEST(RunRows, AreNotWhatAnyPlanSaysItIs) {
  const std::string of = " m=100 n=64 k=64 ranks=4 dtype=bf16";
  const auto why = [](Plan plan, int64_t run_of) {
    plan.run_of = run_of;
    const std::string reason = why_no_run(plan);
    if (!reason.empty()) EXPECT_THROW(check(plan), UsageError);
    return reason;
  };
  const Plan tiles = plan_of("gemm-rs" + of, "tiles,rows=bucket,tile=16x64,comm-sms=2");
  EXPECT_EQ(why(tiles, 200), "");
  EXPECT_EQ(why(tiles, 202), "202 rows are in no equal shards of 4 ranks");
  EXPECT_THAT(why(plan_of("gemm-rs" + of, "sequential"), 200),
              HasSubstr("collectives move whole pieces, as that of rank 0 nccl 0"));
  EXPECT_THAT(why(plan_of("gemm-ar" + of, "decomposed"), 200),
              HasSubstr("copy engines move whole pieces into outputs, as that of rank 1 copy 0"));
  EXPECT_THAT(why(own_plan("team tp 2\ninput x [m, h] whole of tp\ny = gelu x\n"
                           "output y whole of tp\n",
                           4),
                  24),
              HasSubstr("rows that are dealt to teams"));
}

TEST(RunRows, BelongToOneOwnerOfATask) {
  const Plan plan = plan_of("gemm-rs m=100 n=64 k=64 ranks=4 dtype=bf16",
                            "tiles,rows=bucket,tile=16x64,comm-sms=2");
  const TaskRowFinder rows_of(plan);
  int gemms = 0;
  for (const Lane& lane : plan.lanes) {
    for (const Instr& instr : lane.instrs) {
      if (instr.op != Opcode::gemm || lane.rank != 0) continue;
      const Region a = plan.reads(instr)[0];
      const auto rows = rows_of(instr);
      ASSERT_TRUE(rows.has_value());
      EXPECT_EQ(*rows, (TaskRows{a.row0 / 25, a.row0 % 25, a.rows()}));
      ++gemms;
    }
  }
  EXPECT_EQ(gemms, 8);
}

TEST(RunRows, RefusalsSayWhy) {
  const std::string op = " m=100 n=64 k=64 ranks=4 dtype=bf16";
  EXPECT_THAT(
      refusal(plan_of("gemm-rs" + op, "tiles,tile=64x64"), 50),  // shards have 25 rows
      HasSubstr("serves 100 rows only: some tasks work on rows of several owners (rank 0 "));
  EXPECT_THAT(refusal(plan_of("gemm-rs" + op, "sequential"), 50),
              HasSubstr("collectives move whole pieces"));
  EXPECT_THAT(refusal(plan_of("gemm-ar" + op, "decomposed"), 50),
              HasSubstr("copy engines move whole pieces into out"));
  EXPECT_THAT(refusal(plan_of("gemm-rs m=7 n=64 k=64 ranks=4 dtype=bf16", "tiles"), 3),
              HasSubstr("shards must be equal: a plan for 8 rows has them"));
  const Plan served = plan_of("gemm-rs" + op, "tiles,rows=bucket");
  EXPECT_THAT(refusal(served, 0), HasSubstr("serves 1 to 100, not 0"));
  EXPECT_THAT(refusal(served, 101), HasSubstr("serves 1 to 100, not 101"));
  // Where tiles end with the owners anyway, the schedule need not say it.
  EXPECT_EQ(refusal(plan_of("gemm-rs m=128 n=64 k=64 ranks=4 dtype=bf16", "tiles,tile=32x64"), 50),
            "served");
}

// Of operators that no product begins, or whose rows several tensors have.
TEST(RunRows, AreThoseOfEveryTensorThatHasThem) {
  for (const char* lines : {"input x [m, h] whole\ny = gelu x\noutput y whole\n",
                            "input x [m, h] whole\ninput b [1, h] whole\ninput r [m, h] whole\n"
                            "t = bias x b\ny = add t r\noutput y whole\n"}) {
    const Plan plan = own_plan(lines);
    for (const int64_t rows : {1, 5, 12}) {
      SCOPED_TRACE(lines);
      const Plan run = at_rows(plan, rows);
      EXPECT_TRUE(check(run, {.has_whole_plan = true}).clean());
      const EmulateResult result = emulate(run);
      EXPECT_TRUE(result.verified && result.faults.empty()) << result.first_wrong;
    }
  }
}

TEST(RunRows, AreRefusedWhereTensorsWouldChangeOtherwise) {
  EXPECT_THAT(refusal(own_plan("input x [m, h] whole\ninput w [m, h] rows\ny = gemm x w\n"
                               "output y cols\n"),
                      5),
              HasSubstr("w, whose size goes by m, would be another tensor with fewer rows"));
  EXPECT_THAT(refusal(own_plan("team tp 2\ninput x [m, h] whole of tp\ny = gelu x\n"
                               "output y whole of tp\n",
                               4),
                      8),
              HasSubstr("rows that are dealt to teams are all there in every run"));
  EXPECT_THAT(
      refusal(own_plan("input u [7, h] whole\ninput w [h, h] rows\ny = gemm u w\noutput y cols\n"),
              5),
      HasSubstr("u has 7 rows in every run, whatever m is"));
  EXPECT_THAT(refusal(own_plan("input x [m, h] whole\ninput w [h, h] rows\ninput r [m, h] cols\n"
                               "g = gemm x w\ny = add g r\noutput y cols\n"),
                      5),
              HasSubstr("operators of one product serve fewer rows, and g goes on with y"));
  // A row that is added to one row is no weight.
  const Operator one =
      make_graph(parse_graph("graph own m h\ninput x [m, h] whole\ninput b [1, h] whole\n"
                             "y = add x b\noutput y whole\n"),
                 {{"m", 1}, {"h", 16}}, 2, DType::bf16);
  const Machine machine = default_machine(2);
  const Plan plan = lower(one, schedule_of(find_preset("tiles"), one, machine), machine);
  ASSERT_EQ(why_not_served(plan).size(), 1u);
  EXPECT_THAT(why_not_served(plan)[0], HasSubstr("both operands have one shape"));
}

TEST(RunRows, SchedulesThatCannotServeAreRefused) {
  const Segment op = parse_segment("gemm-ar m=100 n=64 k=64 ranks=4 dtype=bf16");
  const Machine machine = default_machine(4);
  const auto reasons = [&](const std::string& text) {
    std::string all;
    for (const std::string& reason : legal(op, parse_schedule(text, op, machine), machine)) {
      all += reason + '\n';
    }
    return all;
  };
  EXPECT_THAT(reasons("sequential,rows=bucket"), HasSubstr("rows=bucket with mover=nccl"));
  EXPECT_THAT(reasons("decomposed,rows=bucket"), HasSubstr("two-shot by copy engines"));
  EXPECT_EQ(reasons("decomposed,reduction=one-shot,rows=bucket"), "");
  EXPECT_EQ(reasons("tiles,rows=bucket"), "");
  const Segment uneven = parse_segment("ag-gemm m=6 n=64 k=64 ranks=4 dtype=bf16");
  const auto refused = legal(uneven, parse_schedule("tiles,rows=bucket", uneven, machine), machine);
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_THAT(refused[0], HasSubstr("m=6 over 4 ranks, whose shards must be equal: take m=8"));
}

}  // namespace
}  // namespace stretto
