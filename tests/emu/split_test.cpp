// Operators whose rows are split in parts: proved, right and of the same bits as when they are
// whole, for every shipped graph under every preset, and for graphs of a caller's own.
#include <gtest/gtest.h>

#include <map>

#include "lost_syncs.h"
#include "own_graph.h"
#include "small_plans.h"

namespace stretto {
namespace {

void use_few_movers(OperatorSchedule& schedule) {
  for (Schedule& product : schedule.products) {
    product.comm_sms = std::min(product.comm_sms, 2);
    if (product.mover == Mover::comm_blocks) product.comm_sms = 2;
  }
}

// Lowers, proves and executes it; the hash of what came out, 0 where something is wrong.
uint64_t hash_of(const Operator& op, const OperatorSchedule& schedule, const Machine& machine,
                 const std::shared_ptr<SharedReference>& reference) {
  const Plan plan = lower(op, schedule, machine);
  expect_proved(plan);
  const EmulateResult result = emulate(plan, {.seed = 3, .runs = 3, .reference = reference});
  EXPECT_TRUE(result.finished);
  EXPECT_TRUE(result.faults.empty()) << result.faults.front().text;
  EXPECT_TRUE(result.verified) << result.first_wrong;
  EXPECT_TRUE(result.ranks_agree);
  return testing::Test::HasFailure() ? 0 : result.output_hash;
}

// As many splits as are served; each has the bits of the whole where its sums have one order.
int expect_splits(const Operator& op) {
  const Machine machine = small_machine(op.ranks);
  const auto reference = make_shared_reference();
  int served = 0;
  for (const Preset& preset : presets()) {
    std::optional<uint64_t> whole;
    for (const int split : {1, 2, 3}) {
      OperatorSchedule schedule = schedule_of(preset, op, machine, split);
      use_few_movers(schedule);
      if (!legal(op, schedule, machine).empty()) continue;
      SCOPED_TRACE(to_string(op) + " " + to_string(schedule));
      const uint64_t hash = hash_of(op, schedule, machine, reference);
      if (testing::Test::HasFailure()) return served;
      if (!is_deterministic(schedule)) {
        served += split > 1;
        continue;
      }
      if (!whole) whole = hash;
      EXPECT_EQ(hash, *whole);
      served += split > 1;
    }
  }
  return served;
}

// By the names of their sizes; rows are ragged, and as many as a split of three of 8 ranks needs.
const std::map<std::string, int64_t, std::less<>> kSizes = {
    {"m", 37}, {"n", 48},     {"k", 72},        {"h", 48},
    {"f", 72}, {"heads", 24}, {"kv-heads", 24}, {"head-dim", 4}};

class SplitsOfRanks : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, SplitsOfRanks, testing::Values(1, 2, 3, 4, 8),
                         [](const auto& test) { return std::to_string(test.param); });

TEST_P(SplitsOfRanks, OfEveryShippedOperatorAreRightUnderEveryPreset) {
  for (const auto& graph : known_graphs()) {
    const std::string& name = name_of(*graph);
    // Layers of experts and pooled look-ups have tests of their own.
    if (name.starts_with("moe-") || name.starts_with("embedding-") ||
        name.starts_with("dispatch") || name == "combine") {
      continue;
    }
    Sizes sizes;
    for (const std::string& size : sizes_of(*graph)) sizes.emplace_back(size, kSizes.at(size));
    EXPECT_GE(expect_splits(make_graph(graph, sizes, GetParam(), DType::bf16)), 6) << name;
    if (HasFailure()) return;
  }
}

// Tensors of all rows beside tensors of own rows, so that a part's rows lie apart in the former.
constexpr OwnGraph kGraphs[] = {
    {"AnAllReduceBesideOwnRows",
     "input x [m, f] cols\n"
     "input w [h, f] cols\n"
     "input r [m, h] rows\n"
     "y = gemm x w\n"
     "s = add r r\n"
     "output y whole\n"
     "output s rows\n"},
    {"WholeRowsBesideOwnRows",
     "input x [m, h] whole\n"
     "input r [m, h] rows\n"
     "input n [1, h] whole\n"
     "t = norm x n\n"
     "s = add r t\n"
     "output t whole\n"
     "output s rows\n"},
    {"ColumnsOfTheCallersOnBothSides",
     "input x [m, f] cols\n"
     "input b [1, f] cols\n"
     "input w [h, f] cols\n"
     "t = bias x b\n"
     "y = gemm t w\n"
     "output t cols\n"
     "output y rows\n"},
};

TEST(SplitsOfOwnGraphs, AreRightUnderEveryPreset) {
  for (const OwnGraph& own : kGraphs) {
    SCOPED_TRACE(own.name);
    const auto graph = parse_graph(std::string("graph own m h f\n") + own.lines);
    for (const int ranks : {1, 2, 3}) {
      for (const int64_t m : {7, 40}) {
        const Operator op = make_graph(graph, {{"m", m}, {"h", 48}, {"f", 96}}, ranks, DType::bf16);
        EXPECT_GE(expect_splits(op), 6);
        if (HasFailure()) return;
      }
    }
  }
}

// Every wait and notify of a plan of two parts, one at a time.
TEST(SplitMutants, LostWaitsAndNotifiesAreReported) {
  const Machine machine = small_machine(2);
  const Operator op = make_operator("gemm-rs-norm-ag", {{"m", 20}, {"n", 32}, {"k", 16}}, 2);
  for (const char* preset : {"tiles", "slices"}) {
    OperatorSchedule schedule = schedule_of(find_preset(preset), op, machine, 2);
    for (Schedule& product : schedule.products) {
      product.comm_sms = 2;
      product.tile_m = product.tile_n = 16;
    }
    expect_every_sync_is_needed(lower(op, schedule, machine));
  }
}

}  // namespace
}  // namespace stretto
