// Damaged plans: whatever they say, the checker answers.
#include <functional>

#include "check/random_plans.h"
#include "check/text_plan.h"
#include "lower/drafts.h"
#include "stretto/error.h"
#include "stretto/schedule.h"

namespace stretto {
namespace {

Plan small_plan(std::string_view preset, ProductKind kind) {
  const Segment op{kind, 21, 32, 16, 2, DType::bf16};
  const Machine machine = small_machine(2, 4);
  return lower(op, parse_schedule(std::string(preset) + ",tile=16x16,comm-sms=2", op, machine),
               machine);
}

// Either a report or a refusal; anything else escapes and fails the test.
void expect_answer(const Plan& plan) {
  try {
    const CheckReport report = check(plan);
    for (const Diagnostic& d : report.diagnostics) {
      EXPECT_FALSE(d.message.empty());
      EXPECT_FALSE(d.hint.empty());
      if (!d.where) continue;
      ASSERT_LT(d.where->lane, plan.lanes.size());
    }
  } catch (const UsageError&) {
  }
}

TEST(Hostile, DamagedTextIsAnswered) {
  Random random(3);
  for (const char* preset : {"tiles", "waves"}) {
    const std::string text = print(small_plan(preset, kGemmRs));
    for (int round = 0; round < 400; ++round) {
      std::string damaged = text;
      for (int n = 1 + pick(random, 3); n > 0; --n) {
        const auto at = static_cast<size_t>(pick(random, static_cast<int>(damaged.size())));
        switch (pick(random, 4)) {
          case 0:
            damaged[at] = static_cast<char>('0' + pick(random, 10));
            break;
          case 1:
            damaged.erase(at, 1);
            break;
          case 2: {  // a line less
            const size_t line = damaged.find('\n', at);
            if (line == std::string::npos) break;
            damaged.erase(line, damaged.find('\n', line + 1) - line);
            break;
          }
          default:
            damaged.insert(at, 1, damaged[at]);
        }
      }
      try {
        expect_answer(parse_plan(damaged));
      } catch (const UsageError&) {  // the parser's answer
      }
    }
  }
}

// Changes one field of an instruction or region.
void damage(Plan& plan, Random& random) {
  auto any_of = [&](auto& items) -> auto& {
    return items[static_cast<size_t>(pick(random, static_cast<int>(items.size())))];
  };
  Lane& lane = any_of(plan.lanes);
  if (lane.instrs.empty()) return;
  Instr& instr = any_of(lane.instrs);
  Region& region = any_of(plan.operands);
  const int value = pick(random, 3) == 0 ? static_cast<int>(random()) : pick(random, 5) - 1;
  const std::vector<std::function<void()>> damages = {
      [&] { instr.op = static_cast<Opcode>(pick(random, 5 + static_cast<int>(kNumTaskKinds))); },
      [&] { instr.collective = static_cast<CollectiveKind>(pick(random, 3)); },
      [&] { instr.lag = static_cast<uint8_t>(value); },
      [&] { instr.id = value; },
      [&] { instr.signal.array = static_cast<uint16_t>(value); },
      [&] { instr.signal.index = value; },
      [&] { instr.rank = static_cast<uint16_t>(value); },
      [&] { instr.amount = value; },
      [&] { instr.amount = INT64_MAX - pick(random, 3); },
      [&] { instr.first_operand = static_cast<uint32_t>(value); },
      [&] { instr.num_reads = static_cast<uint16_t>(value); },
      [&] { region.row1 = value; },
      [&] { region.col0 = value; },
      [&] { region.buffer = static_cast<uint16_t>(pick(random, 5)); },
      [&] { region.rank = static_cast<uint16_t>(pick(random, 3)); },
  };
  any_of(damages)();
}

TEST(Hostile, DamagedPlansAreAnswered) {
  Random random(5);
  for (const char* preset : {"tiles", "two-chunk", "waves"}) {
    for (const ProductKind kind : {kGemmRs, kAgGemm}) {
      const Plan good = small_plan(preset, kind);
      for (int round = 0; round < 300; ++round) {
        Plan plan = good;
        for (int n = 1 + pick(random, 4); n > 0; --n) damage(plan, random);
        expect_answer(plan);
      }
    }
  }
}

TEST(Hostile, HugeAmountsDoNotOverflow) {
  Plan plan = text_plan(1,
                        "signals s 1\n"
                        "lane 0 compute 0\n"
                        "  notify s.0@0 += 1\n"
                        "  notify s.0@0 += 1\n"
                        "lane 0 compute 1\n"
                        "  wait s.0 >= 1\n");
  plan.lanes[1].instrs[0].amount = INT64_MAX;
  expect_only(check(plan, kFragment), DiagnosticKind::unreachable_threshold);
  plan.lanes[0].instrs[0].amount = plan.lanes[0].instrs[1].amount = INT64_MAX;
  EXPECT_THROW(check(plan, kFragment), UsageError);
}

TEST(Hostile, ManyRunsOfALargePlanAreRefused) {
  Plan plan = text_plan(1,
                        "signals s 1 copies=255\n"
                        "lane 0 compute 0\n"
                        "  notify s.0@0 += 1\n");
  expect_clean(check(plan, kFragment));
  plan.lanes[0].instrs.resize(300000, plan.lanes[0].instrs[0]);
  EXPECT_THROW(check(plan, kFragment), UsageError);
}

TEST(Hostile, PlansWithoutLanesOrMemoryAreFine) {
  expect_clean(check_text(8, ""));
  expect_clean(check_text(2, "lane 0 compute 0\nlane 1 nccl 0\n"));
}

}  // namespace
}  // namespace stretto
