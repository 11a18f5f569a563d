// Columns that the ranks do not divide: blocks of whole 16 bytes, of which the last is shorter.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "lost_syncs.h"
#include "stretto/emulate.h"
#include "stretto/error.h"
#include "stretto/lower.h"
#include "stretto/reference.h"

namespace stretto {
namespace {

void expect_right(const Operator& op, const OperatorSchedule& schedule, const Machine& machine) {
  SCOPED_TRACE(to_string(op) + " " + to_string(schedule));
  const Plan plan = lower(op, schedule, machine);
  EXPECT_TRUE(check(plan).clean());
  EXPECT_EQ(print(parse_plan(print(plan))), print(plan));
  for (const Fill fill : {Fill::random, Fill::integers}) {
    const EmulateResult result = emulate(plan, {.fill = fill});
    EXPECT_TRUE(result.faults.empty());
    EXPECT_TRUE(result.verified) << result.first_wrong;
  }
}

void expect_right_under_presets(const Operator& op) {
  const Machine machine = default_machine(op.ranks);
  int served = 0;
  for (const Preset& preset : presets()) {
    OperatorSchedule schedule = schedule_of(preset, op, machine);
    if (!legal(op, schedule, machine).empty()) continue;
    expect_right(op, schedule, machine);
    ++served;
  }
  EXPECT_GE(served, 6) << to_string(op);
}

TEST(ColShards, AreEvenOrOfWholeSteps) {
  const auto sizes = [](int64_t cols, int ranks) {
    const ColShards shards{cols, ranks, 8};
    std::vector<int64_t> all;
    for (int rank = 0; rank < ranks; ++rank) all.push_back(shards.size(rank));
    return all;
  };
  EXPECT_THAT(sizes(12, 3), testing::ElementsAre(4, 4, 4));
  EXPECT_THAT(sizes(1376, 3), testing::ElementsAre(464, 464, 448));
  EXPECT_THAT(sizes(500, 3), testing::ElementsAre(168, 168, 164));
  EXPECT_TRUE((ColShards{17, 3, 8}.fit()));
  EXPECT_FALSE((ColShards{16, 3, 8}.fit()));
}

class UnevenColumns : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, UnevenColumns, testing::Values(3, 5, 7));

TEST_P(UnevenColumns, AreRightUnderEveryPreset) {
  const int ranks = GetParam();
  const int64_t cols = 16 * ranks - 4;  // the last rank has 12
  for (const std::string op : {"ag-gemm", "gemm-rs", "gemm-ar", "col-gemm"}) {
    const bool cuts_k = op.starts_with("gemm-");
    const Sizes sizes{{"m", 37}, {"n", cuts_k ? 40 : cols}, {"k", cuts_k ? cols : 24}};
    expect_right_under_presets(make_operator(op, sizes, ranks));
  }
  for (const char* op : {"mlp", "mlp-ar", "mlp-gelu"}) {
    expect_right_under_presets(make_operator(op, {{"m", 21}, {"h", 32}, {"f", cols}}, ranks));
  }
  expect_right_under_presets(
      make_operator("gemm-rs-norm-ag", {{"m", 19}, {"n", 24}, {"k", cols}}, ranks));
}

TEST(UnevenColumns, OfWholeRowsAndOfStagesBetween) {
  for (const char* lines :
       {"input x [m, f] whole\ninput w [h, f] cols\ny = gemm x w\noutput y rows\n",
        "input x [m, f] cols\ninput b [1, f] whole\ninput w [h, f] cols\n"
        "t = bias x b\ny = gemm t w\noutput y rows\noutput t cols\n",
        "input x [m, h] rows\ninput w [f, h] rows\ninput b [1, f] cols\n"
        "g = gemm x w\ny = bias g b\noutput y cols\n"}) {
    const auto graph = parse_graph(std::string("graph own m h f\n") + lines);
    for (const int ranks : {3, 4}) {
      expect_right_under_presets(
          make_graph(graph, {{"m", 19}, {"h", 48}, {"f", 16 * ranks - 3}}, ranks, DType::bf16));
    }
  }
}

TEST(UnevenColumns, AreMultipliedInPartsOfN) {
  const Operator op = make_operator("ag-gemm", {{"m", 70}, {"n", 100}, {"k", 256}}, 3);
  const Machine machine = default_machine(3);
  expect_right(op, parse_schedules("tiles,tile=16x16,comm-sms=3", op, machine), machine);
  expect_right(op, parse_schedules("sequential,tile=16x16,split-k=2", op, machine), machine);
}

TEST(UnevenColumns, LostWaitsAndNotifiesAreReported) {
  const Machine machine = default_machine(3);
  for (const char* name : {"ag-gemm", "gemm-rs"}) {
    const bool cuts_k = std::string_view(name) == "gemm-rs";
    const Operator op =
        make_operator(name, {{"m", 20}, {"n", cuts_k ? 16 : 20}, {"k", cuts_k ? 20 : 16}}, 3);
    const std::string schedule = "slices,tile=16x16,comm-sms=2";
    expect_every_sync_is_needed(lower(op, parse_schedules(schedule, op, machine), machine));
  }
}

TEST(UnevenColumns, RefusalsSayWhatWouldBeRight) {
  const auto refused = [](std::string_view name, Sizes sizes, int ranks) {
    try {
      make_operator(name, std::move(sizes), ranks);
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_THAT(
      refused("gemm-rs", {{"m", 8}, {"n", 8}, {"k", 10}}, 4),
      testing::HasSubstr("k = 10 is sharded over 4 ranks and must divide: take k = 8 or 12"));
  EXPECT_THAT(refused("gemm-a2a", {{"m", 8}, {"n", 50}, {"k", 8}}, 3),
              testing::HasSubstr("must divide: take n = 48 or 51"));
  EXPECT_EQ(refused("gemm-rs", {{"m", 8}, {"n", 8}, {"k", 50}}, 3), "accepted");
  const Operator op = make_operator("gemm-rs", {{"m", 8}, {"n", 8}, {"k", 500}}, 3);
  const Machine machine = default_machine(3);
  EXPECT_THAT(legal(op, parse_schedules("sequential,split-k=2", op, machine), machine),
              testing::Contains(testing::HasSubstr("fewer columns of K: take split-k=1")));
}

}  // namespace
}  // namespace stretto
