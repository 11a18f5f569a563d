// Pooled look-ups in tables that ranks have among them: executed under every preset and with bags
// of every sort against their reference, and proved, once for all indices.
#include <gmock/gmock.h>

#include <map>

#include "lost_syncs.h"
#include "schedule/row_parts.h"
#include "small_plans.h"
#include "stretto/error.h"
#include "stretto/simulate.h"

namespace stretto {
namespace {

constexpr int kSms = 6;
constexpr RoutingKind kBags[] = {RoutingKind::uniform, RoutingKind::zipf, RoutingKind::one_hot,
                                 RoutingKind::adversarial};

Operator look_ups_in(int64_t tables, std::string_view name, int ranks, int64_t bags, int64_t dim,
                     DType dtype = DType::bf16) {
  return make_operator(
      name, {{"bags", bags}, {"tables", tables}, {"rows", 11}, {"dim", dim}, {"pool", 4}}, ranks,
      dtype);
}

Operator look_ups(std::string_view name, int ranks, int64_t bags, int64_t dim,
                  DType dtype = DType::bf16) {
  return look_ups_in(3 * ranks, name, ranks, bags, dim, dtype);
}

// The presets, and what else a mover and a granularity make up.
std::vector<OperatorSchedule> schedules_of(const Operator& op, const Machine& machine) {
  std::vector<OperatorSchedule> all;
  for (const char* text :
       {"sequential", "decomposed", "tiles", "slices", "decomposed,chunks=2,sync=flag",
        "decomposed,granularity=tile,order=plain", "tiles,order=plain,reuse=ack",
        "tiles,granularity=whole,sync=counter", "tiles,comm-sms=2",
        "slices,mover=comm-blocks,comm-sms=2", "tiles,mover=comm-blocks,comm-sms=2,reuse=ack",
        "tiles,mover=comm-blocks,granularity=chunk,chunks=3,comm-sms=2"}) {
    for (const char* tile : {",tile=8x8", ",tile=16x40"}) {
      OperatorSchedule schedule = parse_schedules(std::string(text) + tile, op, machine);
      EXPECT_THAT(legal(op, schedule, machine), testing::IsEmpty()) << text;
      all.push_back(std::move(schedule));
    }
  }
  return all;
}

class LookUpRanks : public testing::TestWithParam<int> {};

// Ragged bags; ranks that do not divide them, and some that have none.
TEST_P(LookUpRanks, OperatorsAreProvedAndRightWhateverIsLookedUp) {
  const int ranks = GetParam();
  const Machine machine = small_machine(ranks, kSms);
  for (const char* name : {"embedding-a2a", "embedding-a2a-mean"}) {
    for (const int64_t bags : {45, 3}) {
      const Operator op = look_ups(name, ranks, bags, 10);
      const auto reference = make_shared_reference();
      for (const OperatorSchedule& schedule : schedules_of(op, machine)) {
        SCOPED_TRACE(to_string(op) + " " + to_string(schedule));
        const Plan plan = lower(op, schedule, machine);
        expect_proved(plan);
        EXPECT_GT(simulate(plan, machine).total_us, 0);
        for (const RoutingKind bag : kBags) {
          expect_right(plan, {.routing = {bag, {}}, .reference = reference});
          if (HasFailure()) return;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, LookUpRanks, testing::Values(1, 2, 3, 4, 8),
                         [](const auto& test) { return std::to_string(test.param); });

TEST(LookUps, OfIntegersAreExact) {
  const Machine machine = small_machine(3, kSms);
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
    const Operator op = look_ups("embedding-a2a", 3, 31, 16, dtype);
    for (const OperatorSchedule& schedule : schedules_of(op, machine)) {
      expect_right(lower(op, schedule, machine), {.fill = Fill::integers});
      if (HasFatalFailure()) return;
    }
  }
}

// Parts have a stripe of each rank's bags. With 3 bags of 8 ranks some ranks have none of a part.
TEST_P(LookUpRanks, InPartsHaveTheBitsOfTheWhole) {
  const int ranks = GetParam();
  const Machine machine = small_machine(ranks, kSms);
  for (const char* name : {"embedding-a2a", "embedding-a2a-mean"}) {
    for (const int64_t bags : {int64_t{45}, int64_t{5} * ranks - ranks / 2}) {
      const Operator op = look_ups(name, ranks, bags, 10);
      const auto reference = make_shared_reference();
      for (OperatorSchedule schedule : schedules_of(op, machine)) {
        std::map<RoutingKind, uint64_t> whole;
        for (const int split : {1, 2, 3}) {
          schedule.split = split;
          SCOPED_TRACE(to_string(op) + " " + to_string(schedule));
          ASSERT_THAT(legal(op, schedule, machine), testing::IsEmpty());
          const Plan plan = lower(op, schedule, machine);
          expect_proved(plan);
          EXPECT_GT(simulate(plan, machine).total_us, 0);
          for (const RoutingKind bag : kBags) {
            const EmulateResult result =
                emulate(plan, {.seed = 2, .routing = {bag, {}}, .reference = reference});
            EXPECT_TRUE(result.finished && result.verified && result.faults.empty());
            EXPECT_EQ(result.output_hash, whole.try_emplace(bag, result.output_hash).first->second);
            if (HasFailure()) return;
          }
        }
      }
    }
  }
}

TEST(LookUpParts, AreAsManyAsARankHasBagsAtMost) {
  EXPECT_EQ(why_no_split(look_ups("embedding-a2a", 4, 8, 8), 3),
            "split=3 of 2 rows that a rank owns: take split=2 or less");
}

// A task's 8 bags are of both ranks' rows where none sends them, beside two tables of 8 rows.
TEST(LookUpParts, MayStandBeforeOtherStages) {
  const Machine machine = small_machine(2, kSms);
  const Sizes sizes = {{"m", 20}, {"t", 4}, {"s", 4}, {"d", 16}, {"p", 3}, {"n", 24}};
  const std::string head =
      "graph own m t s d p n\ninput ids [m, t*p] cols i32\ninput w [t, s, d] experts\n";
  for (const char* rest :
       {"output x cols\n", "y = silu x\noutput y cols\n",
        "input r [m, n] rows\nq = silu r\noutput q rows\noutput x cols\n",
        "input r [m, n] rows\nq = silu r\noutput q rows\ny = silu x\noutput y cols\n",
        "input b [n, t*d] whole\ny = gemm x b\noutput y rows\n",
        "input r [m, t*d] rows\ny = add r x\noutput y rows\n"}) {
    const Operator op =
        make_graph(parse_graph(head + "x = embed ids w\n" + rest), sizes, 2, DType::bf16);
    for (const char* preset : {"tiles", "sequential", "decomposed"}) {
      for (const int split : {2, 3}) {
        const OperatorSchedule schedule = schedule_of(find_preset(preset), op, machine, split);
        SCOPED_TRACE(rest + to_string(schedule));
        ASSERT_THAT(legal(op, schedule, machine), testing::IsEmpty());
        const Plan plan = lower(op, schedule, machine);
        expect_proved(plan);
        expect_right(plan, {});
        if (HasFailure()) return;
      }
    }
  }
}

class UnevenTables : public testing::TestWithParam<std::pair<int, int>> {};

// The last rank has fewer tables than the others: so fewer indices come in, and fewer columns go
// out. Of 6 columns a table is no whole 16 bytes, and of 10 tiles end within one.
TEST_P(UnevenTables, AreProvedAndRightWhateverIsLookedUp) {
  const auto [tables, ranks] = GetParam();
  const Machine machine = small_machine(ranks, kSms);
  for (const auto& [name, dim] : {std::pair{"embedding-a2a", 10}, {"embedding-a2a-mean", 6}}) {
    const Operator op = look_ups_in(tables, name, ranks, 23, dim);
    const auto reference = make_shared_reference();
    for (const OperatorSchedule& schedule : schedules_of(op, machine)) {
      SCOPED_TRACE(to_string(op) + " " + to_string(schedule));
      const Plan plan = lower(op, schedule, machine);
      expect_proved(plan);
      EXPECT_GT(simulate(plan, machine).total_us, 0);
      expect_right(plan, {.fill = Fill::integers});
      for (const RoutingKind bag : kBags) {
        expect_right(plan, {.routing = {bag, {}}, .reference = reference});
        if (HasFailure()) return;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(LookUps, UnevenTables,
                         testing::Values(std::pair{5, 3}, std::pair{3, 2}, std::pair{7, 4}),
                         [](const auto& test) {
                           return std::to_string(test.param.first) + "On" +
                                  std::to_string(test.param.second);
                         });

// What follows element by element is dealt by tables too: 9 columns and 6, and not 8 and 7.
TEST(LookUps, InUnevenTablesMayStandBeforeStagesOfElements) {
  const Machine machine = small_machine(2, kSms);
  const Sizes sizes = {{"m", 21}, {"t", 5}, {"s", 9}, {"d", 3}, {"p", 3}};
  const std::string head =
      "graph own m t s d p\ninput ids [m, t*p] cols i32\n"
      "input w [t, s, d] experts\nx = embed ids w\n";
  for (const char* rest : {"output x cols\n", "y = silu x\noutput y cols\n",
                           "y = gelu x\nz = add y x\noutput z cols\n",
                           "input r [m, t*d] rows\ny = add r x\noutput y rows\n"}) {
    SCOPED_TRACE(rest);
    const Operator op = make_graph(parse_graph(head + rest), sizes, 2, DType::bf16);
    for (const char* preset : {"tiles", "sequential"}) {
      const OperatorSchedule schedule = schedule_of(find_preset(preset), op, machine);
      ASSERT_THAT(legal(op, schedule, machine), testing::IsEmpty());
      const Plan plan = lower(op, schedule, machine);
      expect_proved(plan);
      expect_right(plan, {});
    }
  }
}

// Sums that stay where their columns are, and those that a product of own rows takes.
TEST(LookUps, MayStandBeforeOtherStages) {
  const Machine machine = small_machine(2, kSms);
  const Sizes sizes = {{"m", 21}, {"t", 4}, {"s", 9}, {"d", 16}, {"p", 3}, {"n", 24}};
  const std::string head =
      "graph own m t s d p n\ninput ids [m, t*p] cols i32\ninput w [t, s, d] experts\n";
  for (const char* rest : {"output x cols\n", "y = silu x\noutput y cols\n",
                           "input b [n, t*d] whole\ny = gemm x b\noutput y rows\n",
                           "input r [m, t*d] rows\ny = add r x\noutput y rows\n"}) {
    SCOPED_TRACE(rest);
    const Operator op =
        make_graph(parse_graph(head + "x = embed ids w\n" + rest), sizes, 2, DType::bf16);
    for (const char* preset : {"tiles", "sequential"}) {
      const OperatorSchedule schedule = schedule_of(find_preset(preset), op, machine);
      ASSERT_THAT(legal(op, schedule, machine), testing::IsEmpty());
      const Plan plan = lower(op, schedule, machine);
      expect_proved(plan);
      expect_right(plan, {});
    }
  }
}

TEST(LookUpMutants, LostWaitsAndNotifiesAreReported) {
  const Machine machine = small_machine(2, kSms);
  const Operator op = look_ups("embedding-a2a", 2, 34, 8);
  for (const char* text : {"decomposed,tile=8x8,granularity=tile", "tiles,tile=8x8",
                           "slices,tile=8x8,mover=comm-blocks,comm-sms=2,reuse=ack",
                           "split=2/tiles,tile=8x8", "split=2/sequential,tile=8x8"}) {
    expect_every_sync_is_needed(lower(op, parse_schedules(text, op, machine), machine));
  }
}

// Another table, other bags, another place: the reference sees it.
TEST(LookUpMutants, WrongRegionsGiveWrongResults) {
  const Machine machine = small_machine(2, kSms);
  const Operator op = look_ups("embedding-a2a", 2, 32, 8);
  const Plan plan = lower(op, parse_schedules("tiles,tile=8x8", op, machine), machine);
  const auto with = [&](size_t operand, int32_t down, int32_t right) {
    Plan mutant = plan;
    for (const Lane& lane : plan.lanes) {
      for (const Instr& instr : lane.instrs) {
        if (instr.op != Opcode::embed) continue;
        Region& region = mutant.operands[instr.first_operand + operand];
        if (region.row0 + down < 0 || region.col0 + right < 0) continue;
        region.row0 += down;
        region.row1 += down;
        region.col0 += right;
        region.col1 += right;
      }
    }
    return mutant;
  };
  for (const Plan& mutant : {with(0, -8, 0), with(0, 0, -4), with(1, -11, 0), with(1, -1, 0)}) {
    ASSERT_NE(print(mutant), print(plan));
    EXPECT_FALSE(emulate(mutant, {}).verified);
  }
}

TEST(LookUpRefusals, SayWhatWouldBeRight) {
  const auto refused = [](int ranks, const std::string& ids, const std::string& w) {
    try {
      make_graph(parse_graph("graph own m\ninput ids " + ids + "\ninput w " + w +
                             "\ny = embed ids w\noutput y cols\n"),
                 {{"m", 8}}, ranks, DType::bf16);
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  using testing::HasSubstr;
  EXPECT_EQ(refused(2, "[m, 8] cols i32", "[4, 9, 16] experts"), "accepted");
  EXPECT_THAT(refused(2, "[m, 8] cols", "[4, 9, 16] experts"),
              HasSubstr("ids says which rows are meant: give it as i32 or i64"));
  EXPECT_THAT(refused(2, "[m, 8] cols i32", "[4, 9, 16] experts fp32"),
              HasSubstr("tables are of bf16, and w is fp32"));
  EXPECT_THAT(refused(2, "[m, 8] cols i32", "[4, 9, 16] whole"),
              HasSubstr("tables are dealt to ranks: give w as [tables, rows, columns] experts"));
  EXPECT_THAT(refused(2, "[m, 6] cols i32", "[4, 9, 16] experts"),
              HasSubstr("ids has 6 columns for 4 tables, of which each has as many: take 4 or 8"));
  EXPECT_EQ(refused(3, "[m, 20] cols i32", "[5, 9, 16] experts"), "accepted");
  EXPECT_THAT(
      refused(3, "[m, 12] cols i32", "[4, 9, 16] experts"),
      HasSubstr("4 matrices of w are dealt to 3 ranks in blocks of 2, which leaves none for "
                "the last: take 3 or 5"));
  EXPECT_THAT(refused(2, "[m, 8] rows i32", "[4, 9, 16] experts"),
              HasSubstr("ids needs an all-to-all that no product makes or takes"));
}

TEST(LookUpRefusals, OfUnevenTablesSayWhatIsDealtOtherwise) {
  const auto refused = [](const std::string& rest) {
    try {
      make_graph(parse_graph("graph own m\ninput ids [m, 30] cols i32\n"
                             "input w [5, 9, 6] experts\nx = embed ids w\n" +
                             rest),
                 {{"m", 8}}, 3, DType::bf16);
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  using testing::HasSubstr;
  EXPECT_EQ(refused("output x rows\n"), "accepted");
  EXPECT_THAT(refused("input r [m, 30] cols\ny = add r x\noutput y cols\n"),
              HasSubstr("the columns of x are dealt by tables, and other operands of add are not: "
                        "take as many tables that 3 ranks divide them"));
  EXPECT_THAT(
      refused("input b [8, 30] cols\ny = gemm x b\noutput y rows\n"),
      HasSubstr("the columns of x are dealt by tables, and other operands of gemm are not"));
  EXPECT_THAT(
      refused("input b [8, 30] whole\ny = gemm x b\noutput y rows\n"),
      HasSubstr("the columns of x are dealt by tables, and other operands of gemm are not"));
  EXPECT_THAT(refused("input v [6, 9, 6] experts\ny = embed ids v\n"
                      "output x rows\noutput y rows\n"),
              HasSubstr("ids is dealt to ranks for other tables already: give the ids of each "
                        "look-up as a tensor of their own"));
}

TEST(LookUpRefusals, OfSchedulesSayWhatWouldBeRight) {
  const Machine machine = small_machine(2, kSms);
  const Operator op = look_ups("embedding-a2a", 2, 32, 8);
  const auto refused = [&](const std::string& text) {
    const auto reasons = legal(op, parse_schedules(text, op, machine), machine);
    return reasons.empty() ? std::string("accepted") : reasons.front();
  };
  using testing::HasSubstr;
  EXPECT_THAT(refused("tiles,cluster=2"), HasSubstr("which multiply nothing: take cluster=1"));
  EXPECT_THAT(refused("tiles,sync=event"), HasSubstr("take sync=flag or counter"));
  EXPECT_THAT(refused("tiles,order=arrival"), HasSubstr("take order=peer-staggered"));
  EXPECT_THAT(refused("sequential,granularity=chunk"), HasSubstr("take granularity=whole"));
  EXPECT_THAT(refused("tiles,rows=bucket"), HasSubstr("take rows=fixed"));
  EXPECT_THAT(refused("library"), HasSubstr("take gemm=tiles"));
}

}  // namespace
}  // namespace stretto
