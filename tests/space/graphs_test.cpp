// Random points of every shipped operator, and of graphs that nobody ships, through every stage:
// sizes that nothing divides, few rows, and for each product a schedule of its own. What is legal
// is proved, and right.
//
// For a long walk over other points: test_space --gtest_shuffle --gtest_repeat=1000
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "op/graph_text.h"
#include "space/random_experts.h"
#include "space/random_graph.h"
#include "space/random_point.h"
#include "stretto/check.h"
#include "stretto/emulate.h"
#include "stretto/error.h"
#include "stretto/lower.h"
#include "stretto/simulate.h"

namespace stretto {
namespace {

using Random = std::mt19937_64;

constexpr int kOperators = 200, kOwnGraphs = 600, kOfTeams = 150, kOfExperts = 600, kSchedules = 4;

int between(Random& random, int least, int most) {
  return std::uniform_int_distribution<int>(least, most)(random);
}
bool one_in(Random& random, int count) { return between(random, 1, count) == 1; }

// Mostly what the ranks divide.
int64_t shared(Random& random, int ranks, int most) {
  const int64_t each = between(random, 1, most) * int64_t{ranks};
  return one_in(random, 4) ? std::max<int64_t>(1, each + between(random, -2, 2)) : each;
}

int64_t random_size(Random& random, std::string_view graph, std::string_view name, int ranks) {
  if (name == "m" || name == "t" || name == "bags") {
    return one_in(random, 4) ? between(random, 1, ranks + 1) : between(random, 1, 90);
  }
  const bool moves = graph.starts_with("dispatch") || graph == "combine";
  if (name == "k" && (graph.starts_with("moe") || moves)) return between(random, 1, 3);
  if (name == "slices") return between(random, 1, 3);  // each is as large as all experts
  if (name == "experts" || name == "tables") return shared(random, ranks, 3);
  if (name == "heads") return 4 * ranks;
  if (name == "kv-heads") return 2 * ranks;
  if (name == "head-dim") return 4 * between(random, 1, 3);
  if (name == "pool" || name == "dim" || name == "rows") return between(random, 1, 12);
  return 8 * shared(random, ranks, 6);
}

// Nothing where the sizes are refused.
std::optional<Operator> random_operator(Random& random) {
  const auto graphs = known_graphs();
  const auto& graph = graphs[random() % graphs.size()];
  const int ranks = between(random, 1, 6);
  Sizes sizes;
  for (const std::string& name : graph->sizes) {
    sizes.emplace_back(name, random_size(random, graph->name, name, ranks));
  }
  constexpr DType kTypes[] = {DType::bf16, DType::fp16, DType::fp32};
  try {
    return make_graph(graph, sizes, ranks, kTypes[random() % std::size(kTypes)]);
  } catch (const UsageError&) {
    return std::nullopt;
  }
}

// Whether the rows of the operator's product of that number choose experts.
bool is_routed(const Operator& op, size_t number) {
  for (const OperatorSegment& segment : op.segments) {
    if (segment.product && number-- == 0) return segment.product->is_routed();
  }
  return false;
}

// Nothing where no schedule of some preset has so many parts.
std::optional<OperatorSchedule> random_schedule(Random& random, const Operator& op,
                                                const Machine& machine) {
  const auto any_preset = [&] {
    return schedule_of(presets()[random() % presets().size()], op, machine,
                       one_in(random, 3) ? between(random, 2, 3) : 1);
  };
  try {
    OperatorSchedule schedule = any_preset();
    const bool is_mixed = !one_in(random, 3);
    for (size_t i = 0; i < schedule.products.size(); ++i) {
      Schedule& product = schedule.products[i];
      if (is_mixed) product = any_preset().products[i];
      product.tile_m = 8 * between(random, 1, 5);
      product.tile_n = 8 * between(random, 1, 5);
      product.comm_sms = std::min(product.comm_sms, 2);
      if (product.mover == Mover::comm_blocks) product.comm_sms = 2;
      for (int changes = between(random, 0, 2); changes > 0; --changes) {
        change_one(random, machine, product);
      }
      if (is_routed(op, i) && one_in(random, 2)) product.permute = Permute::pass;
    }
    return schedule;
  } catch (const UsageError&) {
    return std::nullopt;
  }
}

void expect_served(const Operator& op, const OperatorSchedule& schedule, const Machine& machine,
                   uint64_t seed) {
  EXPECT_EQ(parse_schedules(to_string(schedule), op, machine), schedule);
  const Plan plan = lower(op, schedule, machine);
  const std::string text = print(plan);
  EXPECT_EQ(print(parse_plan(text)), text);
  const CheckReport report = check(plan);
  EXPECT_TRUE(report.clean()) << report.diagnostics.front().message;
  const EmulateResult result = emulate(plan, {.seed = seed, .data_seed = seed, .runs = 3});
  EXPECT_TRUE(result.finished && result.verified && result.ranks_agree && result.faults.empty())
      << (result.faults.empty() ? result.first_wrong : result.faults.front().text);
  const Simulation simulation = simulate(plan, machine);
  EXPECT_TRUE(std::isfinite(simulation.total_us) && simulation.total_us > 0);
}

// How many schedules of the operator are legal, of a few random ones; all of those are served.
int serve(Random& random, const Operator& op) {
  int served = 0;
  const Machine machine = random_machine(random, op.ranks);
  for (int tries = 0; tries < kSchedules; ++tries) {
    const auto schedule = random_schedule(random, op, machine);
    if (!schedule || !legal(op, *schedule, machine).empty()) continue;
    // Movers of one part, or of one product, run beside another's collectives, and legal() asks for
    // room product by product: on machines of so few SMs it is the checker that refuses.
    const bool are_several = schedule->split > 1 || schedule->products.size() > 1;
    if (are_several && machine.sms <= 2 + machine.nccl_sms) continue;
    SCOPED_TRACE(fmt::format("{}\n{}\n{}\n{} nodes of {} ranks with {} SMs, {} of them NCCL's",
                             print(*op.text), to_string(op), to_string(*schedule), machine.nodes,
                             machine.ranks_per_node, machine.sms, machine.nccl_sms));
    try {
      expect_served(op, *schedule, machine, random());
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
    if (testing::Test::HasFailure()) return served;
    ++served;
  }
  return served;
}

// Of so many random operators; of each `least`-th one at least some schedule is legal in the mean.
void expect_most_served(uint64_t seed, int operators, int least,
                        std::optional<Operator> (*make)(Random&)) {
  const auto shuffle_seed = static_cast<uint64_t>(testing::UnitTest::GetInstance()->random_seed());
  Random random(shuffle_seed + seed);
  int served = 0;
  for (int i = 0; i < operators && !testing::Test::HasFailure(); ++i) {
    const std::optional<Operator> op = make(random);
    if (op) served += serve(random, *op);
  }
  testing::Test::RecordProperty("served", served);
  EXPECT_GT(served, operators / least);
}

TEST(Graphs, AreServedAtRandomPoints) {
  expect_most_served(2'000'000, kOperators, 4, random_operator);
}

std::optional<Operator> random_own_graph(Random& random) {
  const int ranks = between(random, 1, 5);
  const int64_t h = 8 * shared(random, ranks, 4), f = 8 * shared(random, ranks, 4);
  const Sizes sizes = {
      {"m", one_in(random, 3) ? between(random, 1, ranks) : between(random, 1, 50)},
      {"h", h},
      {"f", f}};
  constexpr DType kTypes[] = {DType::bf16, DType::fp16, DType::fp32};
  try {
    return make_graph(parse_graph(random_graph_text(random)), sizes, ranks,
                      kTypes[random() % std::size(kTypes)]);
  } catch (const UsageError&) {
    return std::nullopt;
  }
}

// Of ranks in teams, which divide the rows and, mostly, the columns.
std::optional<Operator> random_graph_of_teams(Random& random) {
  const int team = between(random, 1, 4), ranks = team * between(random, 1, 3);
  const Sizes sizes = {{"m", ranks * int64_t{between(random, 1, 6)}},
                       {"h", 8 * shared(random, team, 4)},
                       {"f", 8 * shared(random, team, 4)}};
  try {
    return make_graph(parse_graph(random_graph_text(random, team)), sizes, ranks, DType::bf16);
  } catch (const UsageError&) {
    return std::nullopt;
  }
}

TEST(Graphs, OfTeamsAreServedAtRandomPoints) {
  expect_most_served(5'000'000, kOfTeams, 4, random_graph_of_teams);
}

TEST(Graphs, OfOnesOwnAreServedAtRandomPoints) {
  expect_most_served(4'000'000, kOwnGraphs, 4, random_own_graph);
}

std::optional<Operator> random_graph_of_experts(Random& random) {
  const int ranks = between(random, 1, 5);
  const int64_t experts = shared(random, ranks, 3);
  const Sizes sizes = {
      {"m", one_in(random, 3) ? between(random, 1, ranks) : between(random, 1, 50)},
      {"h", 8 * shared(random, ranks, 2)},
      {"f", 8 * shared(random, ranks, 2)},
      {"e", experts},
      {"k", between(random, 1, static_cast<int>(std::min<int64_t>(experts, 3)))},
      {"tables", shared(random, ranks, 2)},
      {"pool", between(random, 1, 3)},
      {"s", between(random, 1, 20)},
      {"d", 8 * between(random, 1, 2)},
      {"q", between(random, 1, 70)}};
  constexpr DType kTypes[] = {DType::bf16, DType::fp16, DType::fp32};
  try {
    return make_graph(parse_graph(random_experts_text(random)), sizes, ranks,
                      kTypes[random() % std::size(kTypes)]);
  } catch (const UsageError&) {
    return std::nullopt;
  }
}

TEST(Graphs, OfExpertsAreServedAtRandomPoints) {
  expect_most_served(6'000'000, kOfExperts, 8, random_graph_of_experts);
}

}  // namespace
}  // namespace stretto
