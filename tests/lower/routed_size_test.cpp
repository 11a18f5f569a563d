// How large plans of experts are expected to get, beside how large they are: most entries that a
// routing could fill share tasks, so that plans for many ranks are made that worst cases forbid.
#include <gtest/gtest.h>

#include "schedule/plan_size.h"
#include "stretto/lower.h"

namespace stretto {
namespace {

struct Sizes {
  double expected = 0, made = 0;
};

Sizes sizes_of(const std::string& text, const std::string& schedule) {
  const Operator op = parse_operator(text + " dtype=bf16");
  const Machine machine = default_machine(op.ranks);
  const OperatorSchedule chosen = parse_schedules(schedule, op, machine);
  const Operator* const whole = &op;
  Sizes sizes{estimate_instrs({&whole, 1}, chosen.products, machine)};
  for (const Lane& lane : lower(op, chosen, machine).lanes) {
    sizes.made += static_cast<double>(lane.instrs.size());
  }
  return sizes;
}

TEST(RoutedSize, IsExpectedToWithinASmallFactor) {
  for (const char* const op : {"moe-ep t=4096 h=7168 f=2048 experts=256 k=8 ranks=8",
                               "moe-ep t=64 h=2048 f=768 experts=128 k=8 ranks=8",
                               "moe-ep t=8192 h=4096 f=14336 experts=8 k=2 ranks=4",
                               "moe-tp t=4096 h=2048 f=768 experts=128 k=8 ranks=8",
                               "moe-ep t=1024 h=2048 f=768 experts=128 k=8 ranks=32",
                               "dispatch-combine t=4096 h=7168 experts=256 k=8 ranks=16"}) {
    for (const char* const schedule :
         {"tiles,granularity=chunk", "tiles,granularity=whole", "tiles,comm-sms=4", "sequential"}) {
      SCOPED_TRACE(std::string(op) + ": " + schedule);
      const auto [expected, made] = sizes_of(op, schedule);
      EXPECT_GT(expected, made / 4);
      EXPECT_LT(expected, made * 4);
    }
  }
}

// 512 tokens on each of 64 ranks: a routing could bring all to one, and no plan has tasks for that.
TEST(RoutedSize, PlansForManyRanksAreMade) {
  const auto [expected, made] =
      sizes_of("moe-ep t=32768 h=7168 f=2048 experts=256 k=8 ranks=64", "sequential");
  EXPECT_LT(expected, 3e6);
  EXPECT_GT(expected, made / 3);
}

}  // namespace
}  // namespace stretto
