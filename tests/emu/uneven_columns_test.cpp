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

void expect_right_under_presets(const Operator& op, int least = 6) {
  const Machine machine = default_machine(op.ranks);
  int served = 0;
  for (const Preset& preset : presets()) {
    OperatorSchedule schedule = schedule_of(preset, op, machine);
    if (!legal(op, schedule, machine).empty()) continue;
    expect_right(op, schedule, machine);
    ++served;
  }
  EXPECT_GE(served, least) << to_string(op);
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

TEST_P(UnevenColumns, AreExchanged) {
  const int ranks = GetParam();
  const int64_t cols = 16 * ranks - 4;
  for (const int64_t rows : {37, 2}) {  // fewer than ranks, too
    expect_right_under_presets(
        make_operator("gemm-a2a", {{"m", rows}, {"n", cols}, {"k", 24}}, ranks), 4);
    expect_right_under_presets(
        make_operator("a2a-gemm", {{"m", rows}, {"n", 24}, {"k", cols}}, ranks), 4);
  }
}

TEST(UnevenColumns, AreExchangedBetweenProducts) {
  for (const char* lines :
       {"input x [m, h] rows\ninput w [f, h] whole\ninput v [h, f] whole\n"
        "g = gemm x w\nu = gemm x w\ny = gemm g v\noutput u cols\noutput y rows\n",
        "input x [m, h] rows\ninput w [f, h] whole\ninput b [1, f] whole\n"
        "g = gemm x w\ny = bias g b\noutput y cols\n",
        "input x [m, f] cols\ninput w [h, f] whole\ninput v [f, h] whole\n"
        "g = gemm x w\ny = gemm g v\noutput y cols\n"}) {
    const auto graph = parse_graph(std::string("graph own m h f\n") + lines);
    for (const int ranks : {2, 3, 4}) {
      const Sizes sizes{{"m", 19}, {"h", 48}, {"f", 16 * ranks - 3}};
      expect_right_under_presets(make_graph(graph, sizes, ranks, DType::bf16), 1);
    }
  }
}

TEST(UnevenColumns, AreExchangedInPieces) {
  const Machine machine = default_machine(3);
  const Operator heads = make_operator("gemm-a2a", {{"m", 70}, {"n", 100}, {"k", 64}}, 3);
  for (const char* schedule :
       {"tiles,tile=16x16", "slices,tile=16x16", "tiles,tile=16x16,mover=comm-blocks,comm-sms=2",
        "decomposed,tile=16x16", "two-chunk,tile=16x16", "two-chunk,tile=16x16,gemm=library",
        "sequential,tile=16x16"}) {
    expect_right(heads, parse_schedules(schedule, heads, machine), machine);
  }
  const Operator tokens = make_operator("a2a-gemm", {{"m", 70}, {"n", 64}, {"k", 100}}, 3);
  for (const char* schedule :
       {"tiles,tile=16x16,comm-sms=3", "slices,tile=16x16", "two-chunk", "decomposed,tile=16x16",
        "library", "tiles,tile=16x16,split-k=2,comm-sms=1"}) {
    expect_right(tokens, parse_schedules(schedule, tokens, machine), machine);
  }
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
  for (const char* name : {"ag-gemm", "gemm-rs", "gemm-a2a", "a2a-gemm"}) {
    const bool cuts_k = name == std::string_view("gemm-rs") || name == std::string_view("a2a-gemm");
    const Operator op =
        make_operator(name, {{"m", 20}, {"n", cuts_k ? 16 : 20}, {"k", cuts_k ? 20 : 16}}, 3);
    const bool pushes = name != std::string_view("gemm-a2a");
    const std::string schedule = pushes ? "slices,tile=16x16,comm-sms=2" : "slices,tile=16x16";
    expect_every_sync_is_needed(lower(op, parse_schedules(schedule, op, machine), machine));
  }
}

TEST(UnevenColumns, RefusalsSayWhatWouldBeRight) {
  const auto both_ways = parse_graph(
      "graph own m h f\ninput x [m, h] rows\ninput w [f, h] whole\ninput v [h, f] whole\n"
      "g = gemm x w\ny = gemm g v\noutput g cols\noutput y rows\n");
  try {
    make_graph(both_ways, {{"m", 8}, {"h", 8}, {"f", 8}}, 2, DType::bf16);
    ADD_FAILURE() << "accepted";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("g is needed as rows and as cols"));
  }
  const auto refused = [](std::string_view name, Sizes sizes, int ranks) {
    try {
      make_operator(name, std::move(sizes), ranks);
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_THAT(refused("gemm-rs", {{"m", 8}, {"n", 8}, {"k", 10}}, 4),
              testing::HasSubstr("k = 10 is sharded over 4 ranks in blocks of 8, which leaves none "
                                 "for the last: take k = 8 or 12"));
  EXPECT_THAT(
      refused("gemm-a2a", {{"m", 8}, {"n", 16}, {"k", 8}}, 3),
      testing::HasSubstr("in blocks of 8, which leaves none for the last: take n = 15 or 17"));
  EXPECT_EQ(refused("gemm-a2a", {{"m", 8}, {"n", 17}, {"k", 8}}, 3), "accepted");
  EXPECT_EQ(refused("gemm-a2a", {{"m", 8}, {"n", 50}, {"k", 8}}, 3), "accepted");
  EXPECT_EQ(refused("gemm-rs", {{"m", 8}, {"n", 8}, {"k", 50}}, 3), "accepted");
  const Operator op = make_operator("gemm-rs", {{"m", 8}, {"n", 8}, {"k", 500}}, 3);
  const Machine machine = default_machine(3);
  EXPECT_THAT(legal(op, parse_schedules("sequential,split-k=2", op, machine), machine),
              testing::Contains(testing::HasSubstr("fewer columns of K: take split-k=1")));
}

}  // namespace
}  // namespace stretto
