// Layers of experts whose tokens are split in parts, each with a partition of its own: proved, and
// right and of the bits of the whole under every routing.
#include <gmock/gmock.h>

#include <map>

#include "lost_syncs.h"
#include "small_plans.h"
#include "stretto/emulate.h"
#include "stretto/simulate.h"

namespace stretto {
namespace {

constexpr int kSms = 10;
constexpr RoutingKind kRoutings[] = {RoutingKind::uniform, RoutingKind::zipf, RoutingKind::one_hot,
                                     RoutingKind::adversarial};

Operator layer(std::string_view name, int ranks, int64_t tokens) {
  Sizes sizes = {{"t", tokens}, {"h", 40}, {"experts", 3 * ranks}, {"k", 2}};
  if (name != "dispatch-combine") sizes.emplace_back("f", 8 * ranks);
  if (name == "moe-ep-shared") sizes.emplace_back("s", 24);
  if (name == "moe-ep-slices") sizes.emplace_back("slices", ranks % 2 == 0 ? 2 : 1);
  return make_operator(name, sizes, ranks);
}

class RoutedSplits : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, RoutedSplits, testing::Values(1, 2, 3, 4, 8),
                         [](const auto& test) { return std::to_string(test.param); });

TEST_P(RoutedSplits, AreRightAndHaveTheBitsOfTheWhole) {
  const int ranks = GetParam();
  const Machine machine = small_machine(ranks, kSms);
  for (const char* name : {"moe-tp", "moe-ep", "moe-ep-shared", "moe-ep-slices", "moe-ep-router",
                           "moe-tp-router", "dispatch-combine"}) {
    const Operator op = layer(name, ranks, 41);
    const auto reference = make_shared_reference();
    for (OperatorSchedule schedule : small_presets(op, machine)) {
      std::map<RoutingKind, uint64_t> whole;
      for (const int split : {1, 2, 3}) {
        schedule.split = split;
        SCOPED_TRACE(to_string(op) + " " + to_string(schedule));
        ASSERT_THAT(legal(op, schedule, machine), testing::IsEmpty());
        const Plan plan = lower(op, schedule, machine);
        // Rows that are only moved by ids need none.
        if (!plan.partitions.empty()) {
          EXPECT_EQ(plan.partitions.size(), static_cast<size_t>(split));
        }
        expect_proved(plan);
        for (const RoutingKind routing : kRoutings) {
          const EmulateOptions options{.seed = 3, .routing = {routing, {}}, .reference = reference};
          const EmulateResult result = emulate(plan, options);
          EXPECT_TRUE(result.finished && result.verified && result.faults.empty());
          EXPECT_EQ(result.output_hash,
                    whole.try_emplace(routing, result.output_hash).first->second);
          if (HasFailure()) return;
        }
      }
    }
  }
}

// Ids that every rank has all of name tokens of a part here and there.
TEST(RoutedSplits, GoByIdsWhereRanksHaveTheirOwn) {
  const auto graph = parse_graph(
      "graph own t h experts k\n"
      "input x [t, h] whole\ninput ids [t, k] whole i32\ninput weights [t, k] whole fp32\n"
      "input w [experts, h, h] experts\n"
      "d = grouped x w ids\ny = weigh d ids weights\noutput y rows\n");
  const Operator op =
      make_graph(graph, {{"t", 40}, {"h", 128}, {"experts", 6}, {"k", 2}}, 2, DType::bf16);
  const Machine machine = small_machine(2, kSms);
  OperatorSchedule schedule = schedule_of(find_preset("low-latency"), op, machine);
  EXPECT_THAT(legal(op, schedule, machine), testing::IsEmpty());
  schedule.split = 2;
  EXPECT_THAT(legal(op, schedule, machine),
              testing::Contains(testing::HasSubstr(
                  "collectives=low-latency with parts of rows, of which x has all: take split=1")));
}

// Every wait and notify of two parts, one at a time.
TEST(RoutedSplitMutants, LostWaitsAndNotifiesAreReported) {
  const Machine machine = small_machine(2, kSms);
  for (const std::string name : {"moe-tp", "moe-ep", "dispatch-combine"}) {
    Sizes sizes = {{"t", 6}, {"h", 16}, {"experts", 2}, {"k", 1}};
    if (name != "dispatch-combine") sizes.emplace_back("f", 16);
    const Operator op = make_operator(name, sizes, 2);
    OperatorSchedule schedule = small_presets(op, machine).back();
    ASSERT_EQ(schedule.products[0].mover, Mover::comm_blocks);
    schedule.split = 2;
    expect_every_sync_is_needed(lower(op, schedule, machine));
  }
}

// The second part's tokens are sent while the first part's are multiplied, and its sums leave while
// the second's are.
TEST(RoutedSplits, HideTokensAndSums) {
  const Machine machine = default_machine(8);
  const Operator op = make_operator(
      "moe-ep", {{"t", 32768}, {"h", 7168}, {"f", 2048}, {"experts", 256}, {"k", 8}}, 8);
  const auto simulated = [&](const char* schedule) {
    return simulate(lower(op, parse_schedules(schedule, op, machine), machine), machine);
  };
  const Simulation whole = simulated("tiles"), halves = simulated("split=2/tiles");
  EXPECT_LT(halves.exposed_us, 0.9 * whole.exposed_us);
  EXPECT_LT(halves.total_us, 0.99 * whole.total_us);
}

}  // namespace
}  // namespace stretto
