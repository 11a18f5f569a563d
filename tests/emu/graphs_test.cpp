// Operators of several products, executed under every preset against their reference, and proved;
// what is taken away from their synchronisation is reported.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "lost_syncs.h"
#include "small_plans.h"

namespace stretto {
namespace {

struct GraphCase {
  const char* name;
  Sizes sizes;
};

// Ragged rows, and fewer rows than ranks.
std::vector<GraphCase> cases() {
  const Sizes products = {{"m", 37}, {"n", 48}, {"k", 72}}, few = {{"m", 3}, {"n", 48}, {"k", 72}};
  const Sizes mlp = {{"m", 37}, {"h", 48}, {"f", 72}};
  return {{"mlp", mlp},
          {"mlp", {{"m", 3}, {"h", 48}, {"f", 72}}},
          {"mlp-ar", mlp},
          {"mlp-gelu", mlp},
          {"gemm-ar-norm", products},
          {"gemm-ar-norm", few},
          {"gemm-rs-norm", products},
          {"gemm-rs-norm-ag", products},
          {"gemm-rs-norm-ag", few},
          {"gemv-ar", few},
          {"gemm-a2a", products},
          {"gemm-a2a", few},
          {"a2a-gemm", products},
          {"a2a-gemm", few},
          {"layer",
           {{"m", 21}, {"h", 48}, {"f", 72}, {"heads", 12}, {"kv-heads", 6}, {"head-dim", 4}}}};
}

class GraphsOfRanks : public testing::TestWithParam<int> {
 protected:
  static void expect_proved_and_right(const Plan& plan,
                                      const std::shared_ptr<SharedReference>& reference) {
    expect_proved(plan);
    for (const uint64_t seed : {1, 2}) expect_right(plan, {.seed = seed, .reference = reference});
  }
};

TEST_P(GraphsOfRanks, AreProvedAndRightUnderEveryPreset) {
  const int ranks = GetParam();
  const Machine machine = small_machine(ranks);
  size_t served = 0;
  for (const GraphCase& one : cases()) {
    const Operator op = make_operator(one.name, one.sizes, ranks);
    const auto reference = make_shared_reference();
    for (const Preset& preset : presets()) {
      OperatorSchedule schedule = schedule_of(preset, op, machine);
      for (Schedule& product : schedule.products) {
        product.comm_sms = std::min(product.comm_sms, 2);
        if (product.mover == Mover::comm_blocks) product.comm_sms = 2;
      }
      if (!legal(op, schedule, machine).empty()) continue;
      SCOPED_TRACE(to_string(op) + " " + to_string(schedule));
      const Plan plan = lower(op, schedule, machine);
      expect_proved_and_right(plan, reference);
      if (HasFailure()) return;
      ++served;
    }
  }
  EXPECT_GE(served, 4 * cases().size());
}

INSTANTIATE_TEST_SUITE_P(Ranks, GraphsOfRanks, testing::Values(1, 2, 3, 4, 8),
                         [](const auto& test) { return std::to_string(test.param); });

TEST_P(GraphsOfRanks, AreProvedAndRightByAnyMoverOfAnEdgeAtNoProduct) {
  const int ranks = GetParam();
  const Machine machine = small_machine(ranks);
  size_t served = 0;
  for (const int64_t rows : {37, 3}) {
    const Operator op =
        make_operator("gemm-rs-norm-ag", {{"m", rows}, {"n", 48}, {"k", 72}}, ranks);
    const auto reference = make_shared_reference();
    for (const char* products : {"sequential", "decomposed", "tiles", "slices", "split=2/tiles"}) {
      for (const char* mover : {"copy-engine", "nccl"}) {
        if (rows < 2 * ranks && std::string_view(products).starts_with("split")) continue;
        OperatorSchedule schedule =
            parse_schedules(std::string(products) + "/out:mover=" + mover, op, machine);
        for (Schedule& product : schedule.products) {
          product.comm_sms = std::min(product.comm_sms, 2);
        }
        if (!legal(op, schedule, machine).empty()) continue;
        SCOPED_TRACE(to_string(op) + " " + to_string(schedule));
        const Plan plan = lower(op, schedule, machine);
        expect_proved_and_right(plan, reference);
        if (HasFailure()) return;
        // The lanes that have made the rows send none.
        for (const Lane& lane : plan.lanes) {
          for (const Instr& instr : lane.instrs) {
            if (lane.kind != LaneKind::compute || !instr.is_task()) continue;
            for (const Region& region : plan.writes(instr)) {
              EXPECT_FALSE(plan.buffers[region.buffer].name == "out" && region.rank != lane.rank);
            }
          }
        }
        ++served;
      }
    }
  }
  EXPECT_GE(served, 9u);
}

// Ragged rows and columns, several waves of tiles, and fewer rows than lanes.
TEST_P(GraphsOfRanks, AreProvedAndRightWithRowsTakenByTheLanesOfTiles) {
  const int ranks = GetParam();
  if (ranks == 1) return;
  const Machine machine = small_machine(ranks);
  size_t served = 0;
  for (const char* name : {"gemm-ar-norm", "gemm-rs-norm"}) {
    for (const int64_t rows : {70, 3}) {
      const Operator op = make_operator(name, {{"m", rows}, {"n", 56}, {"k", 72}}, ranks);
      const auto reference = make_shared_reference();
      for (const char* sums : {"", ",reduction=one-shot", ",reduction=one-shot,order=plain"}) {
        const OperatorSchedule schedule = parse_schedules(
            fmt::format("tiles,tile=16x16,granularity=tile,mover=epilogue,comm-sms=0,sync=flag{}/"
                        "{}:mover=epilogue",
                        sums, op.segments[1].name),
            op, machine);
        if (!legal(op, schedule, machine).empty()) continue;
        SCOPED_TRACE(to_string(op) + " " + to_string(schedule));
        const Plan plan = lower(op, schedule, machine);
        expect_proved_and_right(plan, reference);
        if (HasFailure()) return;
        ++served;
      }
    }
  }
  EXPECT_EQ(served, 8u);
}

TEST(GraphEdges, LostWaitsAndNotifiesAreReported) {
  const Operator op = make_operator("gemm-rs-norm-ag", {{"m", 6}, {"n", 32}, {"k", 16}}, 2);
  const Machine machine = small_machine(2, 3);
  for (const char* text :
       {"tiles,tile=16x16/out:mover=copy-engine", "sequential,tile=16x16/out:mover=nccl"}) {
    OperatorSchedule schedule = parse_schedules(text, op, machine);
    for (Schedule& product : schedule.products) {
      product.comm_sms = std::min(product.comm_sms, 1);
    }
    expect_every_sync_is_needed(lower(op, schedule, machine));
  }
}

// Two gathers whose tiles begin wave by wave, where lanes have uneven numbers of the first one's.
TEST(GraphWaves, OfOneProductWaitForNothingOfTheNext) {
  const Sizes sizes = {{"m", 40},     {"h", 64},       {"f", 96},
                       {"heads", 12}, {"kv-heads", 6}, {"head-dim", 16}};
  const Operator op = make_operator("layer", sizes, 2);
  const std::string gather = "tiles,tile=16x16,start=wave,comm-sms=2";
  const OperatorSchedule schedule =
      parse_schedules("tiles/up:" + gather + "/qkv:" + gather, op, small_machine(2));
  const Plan plan = lower(op, schedule, small_machine(2));
  expect_proved(plan);
  expect_right(plan, {});
}

// Every wait and notify of a plan of two products, one at a time.
TEST(GraphMutants, LostWaitsAndNotifiesAreReported) {
  const Machine machine = small_machine(2);
  for (const char* name : {"mlp", "gemm-rs-norm-ag"}) {
    const Sizes sizes = std::string_view(name) == "mlp" ? Sizes{{"m", 20}, {"h", 16}, {"f", 32}}
                                                        : Sizes{{"m", 20}, {"n", 32}, {"k", 16}};
    const Operator op = make_operator(name, sizes, 2);
    OperatorSchedule schedule = schedule_of(find_preset("slices"), op, machine);
    for (Schedule& product : schedule.products) {
      product.comm_sms = 2;
      product.tile_m = product.tile_n = 16;
    }
    expect_every_sync_is_needed(lower(op, schedule, machine));
  }
}

}  // namespace
}  // namespace stretto
