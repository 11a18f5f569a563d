// Products of one operator, each with tiles, movers and a library of its own: any two schedules
// that can serve go together, and say so in the plan's text.
#include <gmock/gmock.h>

#include <map>

#include "lost_syncs.h"
#include "small_plans.h"

namespace stretto {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

const Sizes kRagged = {{"m", 37}, {"h", 48}, {"f", 96}};

void expect_right(const Operator& op, const OperatorSchedule& schedule, const Machine& machine,
                  const std::shared_ptr<SharedReference>& reference) {
  SCOPED_TRACE(to_string(op) + " " + to_string(schedule));
  ASSERT_THAT(legal(op, schedule, machine), IsEmpty());
  const Plan plan = lower(op, schedule, machine);
  expect_proved(plan);
  for (const uint64_t seed : {1, 2}) expect_right(plan, {.seed = seed, .reference = reference});
}

// How many of them can serve.
size_t serve_all_pairs(const Operator& op, const Machine& machine, int split) {
  const auto reference = make_shared_reference();
  size_t served = 0;
  for (const Preset& first : presets()) {
    for (const Preset& second : presets()) {
      OperatorSchedule schedule = schedule_of(first, op, machine, split);
      schedule.products[1] = schedule_of(second, op, machine, split).products[1];
      for (Schedule& product : schedule.products) {
        product.tile_m = &product == &schedule.products[0] ? 16 : 8;
        product.tile_n = 16;
        product.comm_sms = std::min(product.comm_sms, 2);
      }
      if (!legal(op, schedule, machine).empty()) continue;
      expect_right(op, schedule, machine, reference);
      ++served;
    }
  }
  return served;
}

class ProductsOfRanks : public testing::TestWithParam<int> {};

TEST_P(ProductsOfRanks, HaveTilesOfTheirOwn) {
  const int ranks = GetParam();
  const Machine machine = small_machine(ranks);
  const Operator op = make_operator("mlp", kRagged, ranks);
  const OperatorSchedule schedule =
      parse_schedules("tiles,tile=16x32,comm-sms=2/down:tiles,tile=8x24,comm-sms=0", op, machine);
  expect_right(op, schedule, machine, make_shared_reference());
  // By boundaries before them: the rows and columns of the largest tile that a product has.
  std::map<size_t, std::pair<int32_t, int32_t>> most;
  const Plan plan = lower(op, schedule, machine);
  for (const Lane& lane : plan.lanes) {
    size_t behind = 0;
    for (const Instr& instr : lane.instrs) {
      behind += instr.op == Opcode::boundary;
      if (instr.op != Opcode::gemm) continue;
      auto& [rows, cols] = most[behind];
      rows = std::max(rows, plan.reads(instr)[0].rows());
      cols = std::max(cols, plan.reads(instr).back().rows());
    }
  }
  ASSERT_EQ(most.size(), 2u);
  // Each of the two weights of the first has half of a tile's columns. Shards of 3 ranks cut rows.
  EXPECT_THAT(most.begin()->second, Pair(ranks == 3 ? 13 : 16, 16));
  EXPECT_THAT(most.rbegin()->second, Pair(8, 24));
}

// Presets, each for one product.
TEST_P(ProductsOfRanks, GoTogetherWhateverTheyHave) {
  const int ranks = GetParam();
  size_t served = 0;
  for (const int64_t rows : {37, 3}) {  // ragged, and fewer than some ranks
    const Operator op = make_operator("mlp", {{"m", rows}, {"h", 48}, {"f", 96}}, ranks);
    for (int split = 1; split <= 2; ++split) {
      served += serve_all_pairs(op, small_machine(ranks), split);
    }
  }
  EXPECT_GE(served, 100u);
}

INSTANTIATE_TEST_SUITE_P(Ranks, ProductsOfRanks, testing::Values(2, 3, 4),
                         [](const auto& test) { return std::to_string(test.param); });

std::vector<LibraryKernel> library_kernels(const char* name, const Sizes& sizes,
                                           const std::string& schedule) {
  const Operator op = make_operator(name, sizes, 2);
  const Plan plan = lower(op, parse_schedules(schedule, op, small_machine(2)), small_machine(2));
  EXPECT_FALSE(plan.library_gemms);
  return plan.library_kernels;
}

TEST(Products, ThatALibraryMultipliesAreSaidByTheirKernels) {
  const LibraryKernel first{1, 0}, second{2, 5};
  EXPECT_THAT(library_kernels("mlp", kRagged, "tiles/down:library,algorithm=5"),
              ElementsAre(second));
  EXPECT_THAT(library_kernels("mlp", kRagged, "library/down:tiles"), ElementsAre(first));
  EXPECT_THAT(library_kernels("mlp", kRagged, "library/down:library,algorithm=5").size(), 2u);
  const LibraryKernel few_rows{2, 0, true}, behind_swiglu{4, 0, true};
  EXPECT_THAT(library_kernels("mlp", kRagged, "tiles/down:few-rows"), ElementsAre(few_rows));
  EXPECT_THAT(library_kernels("mlp", kRagged, "low-latency/down:few-rows"),
              ElementsAre(first, behind_swiglu));
}

TEST(Products, OfALibraryAreSaidOnceWhereAllAreAlike) {
  const Operator op = make_operator("mlp", kRagged, 2);
  const Plan plan =
      lower(op, parse_schedules("library,algorithm=5", op, small_machine(2)), small_machine(2));
  EXPECT_TRUE(plan.library_gemms);
  EXPECT_EQ(plan.library_algorithm, 5);
  EXPECT_THAT(plan.library_kernels, IsEmpty());
}

TEST(Products, ShareClustersAndWhoMakesCollectives) {
  const Machine machine = small_machine(2);
  const Operator op = make_operator(
      "layer", {{"m", 32}, {"h", 64}, {"f", 96}, {"heads", 8}, {"kv-heads", 4}, {"head-dim", 8}},
      2);
  const auto reasons_of = [&](const char* text) {
    return legal(op, parse_schedules(text, op, machine), machine);
  };
  EXPECT_THAT(reasons_of("library/down:low-latency"),
              ElementsAre("down: collectives=low-latency beside collectives=nccl of o, and all "
                          "products with mover=nccl have one: take collectives=nccl here, or "
                          "collectives=low-latency there"));
  EXPECT_THAT(reasons_of("tiles/down:low-latency"), IsEmpty());
  EXPECT_THAT(reasons_of("tiles/down:library/qkv:library,algorithm=3"), IsEmpty());
}

// Every wait and notify between a product of tiles and one of a library, one at a time.
TEST(Products, OfATileKernelAndALibraryNeedEverySync) {
  const Machine machine = small_machine(2);
  const Operator op = make_operator("mlp", {{"m", 44}, {"h", 16}, {"f", 32}}, 2);
  for (const char* text : {"tiles,tile=16x16,comm-sms=2/down:library,tile=16x16",
                           "library,tile=16x16/down:slices,tile=16x16,comm-sms=2"}) {
    expect_every_sync_is_needed(lower(op, parse_schedules(text, op, machine), machine));
  }
}

// NCCL's kernels, and those by which a copy engine signals, find an SM whatever else waits.
TEST(Products, LeaveSmsToEachOther) {
  const Machine machine = small_machine(5);
  const Operator op = make_operator("mlp", {{"m", 90}, {"h", 240}, {"f", 240}}, 5);
  for (const char* first : {"sequential,comm-sms=0", "library", "decomposed,reuse=ack"}) {
    const std::string text =
        std::string(first) + ",tile=40x24/down:tiles,tile=8x16,comm-sms=0,order=interleaved";
    expect_right(op, parse_schedules(text, op, machine), machine, make_shared_reference());
  }
  const OperatorSchedule crowded =
      parse_schedules("waves,comm-sms=4,tile=8x16/down:tiles,comm-sms=8,tile=8x16", op, machine);
  EXPECT_THAT(legal(op, crowded, machine),
              testing::Contains(testing::HasSubstr("12, take at most 11 together")));
}

}  // namespace
}  // namespace stretto
