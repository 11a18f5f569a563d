// What auto takes of operators of several products, and of those whose rows choose experts.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "stretto/check.h"
#include "stretto/lower.h"
#include "stretto/simulate.h"
#include "stretto/tune.h"

namespace stretto {
namespace {

double us_of(const Operator& op, const OperatorSchedule& schedule, const Machine& machine) {
  return simulate(lower(op, schedule, machine), machine).total_us;
}

TEST(RoutedAuto, IsNeverSlowerThanItsPresets) {
  for (const std::string text : {"moe-tp t=1024 h=1024 f=1024 experts=8 k=2 ranks=8",
                                 "moe-tp t=1024 h=512 f=256 experts=32 k=4 ranks=4",
                                 "moe-ep t=1024 h=1024 f=512 experts=32 k=4 ranks=4"}) {
    SCOPED_TRACE(text);
    const Operator op = parse_operator(text + " dtype=bf16");
    const Machine machine = default_machine(op.ranks);
    const AutoSchedules found = auto_schedules(op, machine, load_tuning());
    EXPECT_TRUE(legal(op, found.schedule, machine).empty());
    const double us = us_of(op, found.schedule, machine);
    EXPECT_NE(found.reason.find(fmt::format("simulated: {:.0f} us", us)), std::string::npos)
        << found.reason;
    for (const std::string_view name : {"sequential", "tiles"}) {
      EXPECT_LE(us, us_of(op, schedule_of(find_preset(name), op, machine), machine)) << name;
    }
  }
}

// A partition for each source is tried where the preset has it, so that no plan is made of entries
// which are nearly all padding.
TEST(RoutedAuto, TriesPartitionsOfSourcesWhereTheyAreWorthIt) {
  const Machine machine = default_machine(8);
  const auto reason = [&](const char* text) {
    const Operator op = parse_operator(text);
    return auto_schedules(op, machine, load_tuning()).reason;
  };
  const std::string few = reason("moe-ep t=1024 h=2048 f=768 experts=128 k=8 ranks=8 dtype=bf16");
  EXPECT_NE(few.find("tiles"), std::string::npos);
  EXPECT_EQ(few.find("granularity"), std::string::npos) << few;
  const std::string many = reason("moe-ep t=2048 h=2048 f=64 experts=8 k=4 ranks=8 dtype=bf16");
  EXPECT_NE(many.find("tiles,granularity=whole"), std::string::npos) << many;
  EXPECT_EQ(many.find("granularity=chunk"), std::string::npos) << many;
}

// Few tokens cross by their ids, with what partitions and sums are made of: a kernel ahead of the
// products and one behind, whoever has the experts.
TEST(RoutedAuto, SendsFewTokensByTheirIdsAroundProducts) {
  for (const char* sizes :
       {"moe-tp t=1024 h=2048 f=768 experts=128 k=8", "moe-ep t=2048 h=2048 f=768 experts=128 k=8",
        "moe-tp-router t=1024 h=2048 f=768 experts=128 k=8",
        "moe-tp-up t=1024 h=2048 f=768 experts=128 k=8"}) {
    SCOPED_TRACE(sizes);
    const Operator op = parse_operator(std::string(sizes) + " ranks=2 dtype=bf16");
    const Machine machine = default_machine(op.ranks);
    const AutoSchedules found = auto_schedules(op, machine, load_tuning());
    EXPECT_TRUE(found.reason.starts_with("library, rows by ids, simulated:")) << found.reason;
    EXPECT_NE(found.reason.find(", library by all blocks "), std::string::npos) << found.reason;
    const Plan plan = lower(op, found.schedule, machine);
    EXPECT_TRUE(plan.low_latency_collectives);
    EXPECT_TRUE(check(plan).diagnostics.empty());
    EXPECT_LT(us_of(op, found.schedule, machine),
              0.97 * us_of(op, schedule_of(find_preset("library"), op, machine), machine));
  }
}

// Tiles between kernels wait for weights longer than the kernel of experts does.
TEST(RoutedAuto, TakesWholeProductsWhereTilesWaitForWeights) {
  for (const char* sizes : {"moe-tp-up t=64 h=4096 f=14336 experts=8 k=2",
                            "moe-tp-up t=64 h=2048 f=768 experts=128 k=8",
                            "moe-tp-up t=64 h=4096 f=1536 experts=128 k=8",
                            "moe-tp-up t=64 h=7168 f=2048 experts=256 k=8",
                            "moe-tp-up t=1024 h=2880 f=2880 experts=128 k=4",
                            "moe-tp-up t=1024 h=7168 f=2048 experts=256 k=8",
                            "moe-tp-up t=1024 h=7168 f=512 experts=256 k=8",
                            "moe-tp-up t=1024 h=2880 f=720 experts=128 k=4"}) {
    const Operator op = parse_operator(std::string(sizes) + " ranks=2 dtype=bf16");
    const Machine machine = default_machine(op.ranks);
    const AutoSchedules found = auto_schedules(op, machine, load_tuning());
    EXPECT_TRUE(found.reason.starts_with("library")) << found.reason;
    EXPECT_LT(us_of(op, found.schedule, machine),
              us_of(op, schedule_of(find_preset("sequential"), op, machine), machine));
    EXPECT_LE(us_of(op, found.schedule, machine),
              us_of(op, schedule_of(find_preset("library"), op, machine), machine));
  }
}

// Copy engines were faster than blocks in each layer of many tokens that was measured; with own
// tokens first where an expert has many rows and K is short.
TEST(RoutedAuto, SendsManyTokensByCopyEngines) {
  const auto taken = [](const char* sizes) {
    const Operator op = parse_operator(std::string(sizes) + " ranks=2 dtype=bf16");
    const AutoSchedules found = auto_schedules(op, default_machine(2), load_tuning());
    const Schedule& one = found.schedule.products[0];
    EXPECT_EQ(one.mover, Mover::copy_engine) << found.reason;
    EXPECT_TRUE(legal(op, found.schedule, default_machine(2)).empty());
    return one.granularity;
  };
  for (const char* sizes :
       {"moe-tp-up t=8192 h=4096 f=384 experts=128 k=8",
        "moe-tp t=8192 h=4096 f=384 experts=128 k=8", "moe-tp t=8192 h=4096 f=3584 experts=8 k=2",
        "moe-tp t=8192 h=2048 f=192 experts=128 k=8"}) {
    EXPECT_EQ(taken(sizes), Granularity::whole) << sizes;
  }
  EXPECT_EQ(taken("moe-tp-up t=16384 h=2048 f=768 experts=128 k=8"), Granularity::chunk);
}

// Within what the simulation errs by, what was measured to be faster.
TEST(RoutedAuto, TakesOfAlikeWaysTheOneThatWasFasterWhenMeasured) {
  const Operator op =
      parse_operator("moe-tp-down-ar t=1024 h=2048 f=768 experts=128 k=8 ranks=2 dtype=bf16");
  const std::string reason = auto_schedules(op, default_machine(2), load_tuning()).reason;
  EXPECT_TRUE(reason.starts_with("library by all blocks, simulated:")) << reason;
  EXPECT_NE(reason.find(", library with written sums "), std::string::npos) << reason;
}

// By ids, as far as slots have room.
TEST(RoutedAuto, MovesRowsByTheirIdsWhereNothingMultipliesThem) {
  const auto by = [](const char* text) {
    const Operator op = parse_operator(std::string(text) + " ranks=2 dtype=bf16");
    return auto_schedules(op, default_machine(2), load_tuning()).schedule.products[0].collectives;
  };
  for (const char* text :
       {"dispatch t=256 h=7168 experts=256 k=8", "combine t=256 h=7168 experts=256 k=8",
        "dispatch-combine t=32 h=7168 experts=256 k=8",
        "dispatch-combine t=256 h=2048 experts=128 k=8",
        "dispatch-combine t=8192 h=7168 experts=256 k=8"}) {
    EXPECT_EQ(by(text), CollectivesBy::low_latency) << text;
  }
  EXPECT_EQ(by("dispatch-combine t=16384 h=7168 experts=256 k=8"), CollectivesBy::nccl);
  EXPECT_EQ(by("moe-ep t=256 h=2048 f=768 experts=128 k=8"), CollectivesBy::low_latency);
  EXPECT_EQ(by("moe-ep t=256 h=7168 f=2048 experts=64 k=8"), CollectivesBy::low_latency);
  EXPECT_EQ(by("moe-tp t=256 h=2048 f=768 experts=128 k=8"), CollectivesBy::low_latency);
}

// Copy engines send many beside tables, and only their sums go by ids.
TEST(RoutedAuto, SendsManyTokensAroundProductsByNoIds) {
  const auto by = [](int64_t tokens) {
    const Operator op = make_operator(
        "moe-ep", {{"t", tokens}, {"h", 4096}, {"f", 2048}, {"experts", 64}, {"k", 8}}, 8);
    return auto_schedules(op, default_machine(8), load_tuning()).schedule.products[0].collectives;
  };
  EXPECT_EQ(by(8 * 2048), CollectivesBy::low_latency);
  EXPECT_EQ(by(8 * 2048 + 1), CollectivesBy::nccl);
}

// Beside products they are no faster for that: collectives between kernels keep tiles apart.
TEST(RoutedAuto, IsNoSlowerThanItsPresetsWhereRowsAreMovedBesideProducts) {
  const auto graph = parse_graph(
      "graph moved m h f e k\ninput x [m, h] rows\ninput ids [m, k] rows i32\n"
      "input weights [m, k] rows fp32\ninput w [f, h] rows\ninput v [h, f] cols\n"
      "d = permute x ids experts=e\ny = weigh d ids weights\na = gemm x w\nb = gemm a v\n"
      "z = add b y\noutput z rows\n");
  const Machine machine = default_machine(8);
  for (const int64_t m : {16, 512, 4096}) {
    const Operator op = make_graph(graph, {{"m", m}, {"h", 2048}, {"f", 4096}, {"e", 64}, {"k", 4}},
                                   8, DType::bf16);
    const AutoSchedules found = auto_schedules(op, machine, load_tuning());
    EXPECT_TRUE(legal(op, found.schedule, machine).empty());
    const double us = us_of(op, found.schedule, machine);
    for (const std::string_view name : {"sequential", "tiles", "low-latency", "few-rows"}) {
      const OperatorSchedule preset = schedule_of(find_preset(name), op, machine);
      if (!legal(op, preset, machine).empty()) continue;
      EXPECT_LE(us, us_of(op, preset, machine)) << name << " of " << m << ": " << found.reason;
    }
  }
}

// Whole products pad no entries. Where they are none, or few, tiles go on without the ends of
// kernels: by that they are faster, with no link to hide.
TEST(RoutedAuto, HasNoLinkToHideOnOneRank) {
  const Machine machine = default_machine(1);
  const char* const wide = "moe-ep t=64 h=512 f=256 experts=8 k=2 ranks=1 dtype=bf16";
  const Operator of_wide = parse_operator(wide);
  EXPECT_EQ(auto_schedules(of_wide, machine, load_tuning()).schedule,
            schedule_of(find_preset("library"), of_wide, machine));
  for (const char* text :
       {"moe-ep t=64 h=512 f=64 experts=8 k=2", "moe-ep t=13 h=16 f=16 experts=3 k=1",
        "dispatch t=31 h=16 experts=2 k=2", "combine t=256 h=2048 experts=64 k=8",
        "dispatch-combine t=4096 h=4096 experts=64 k=6"}) {
    const Operator op = parse_operator(std::string(text) + " ranks=1 dtype=bf16");
    const AutoSchedules found = auto_schedules(op, machine, load_tuning());
    const double us = us_of(op, found.schedule, machine);
    for (const Preset& preset : presets()) {
      const OperatorSchedule other = schedule_of(preset, op, machine);
      if (!legal(op, other, machine).empty()) continue;
      EXPECT_LE(us, 1.04 * us_of(op, other, machine)) << preset.name << " " << text;
    }
    EXPECT_LT(us, 0.9 * us_of(op, schedule_of(find_preset("sequential"), op, machine), machine));
    EXPECT_TRUE(found.reason.starts_with("tiles")) << found.reason;
  }
}

// Where no slots have room for what goes by ids, all blocks may move rows, without NCCL; unless
// that is hardly faster by simulation.
TEST(RoutedAuto, MovesRowsByAllBlocksWhereThatIsClearlyFaster) {
  for (const auto& [text, ranks] :
       {std::pair("dispatch-combine t=16 h=7168 experts=256 k=8", 64),
        std::pair("dispatch-combine t=16384 h=7168 experts=256 k=8", 2)}) {
    const Operator op = parse_operator(fmt::format("{} ranks={} dtype=bf16", text, ranks));
    const Machine machine = default_machine(ranks);
    const AutoSchedules found = auto_schedules(op, machine, load_tuning());
    EXPECT_TRUE(found.reason.starts_with("all blocks, simulated:")) << found.reason;
    EXPECT_EQ(found.schedule.products[0].mover, Mover::epilogue);
    EXPECT_TRUE(legal(op, found.schedule, machine).empty());
    EXPECT_TRUE(check(lower(op, found.schedule, machine)).clean());
    const double us = us_of(op, found.schedule, machine);
    for (const char* name : {"sequential", "tiles"}) {
      const OperatorSchedule other = schedule_of(find_preset(name), op, machine);
      if (!legal(op, other, machine).empty()) continue;
      EXPECT_LT(us, 0.96 * us_of(op, other, machine)) << name;
    }
  }
}

// Beside experts activations follow dense products in tiles alone, so these stay tiles.
TEST(RoutedAuto, TakesWholeProductsWhereTheyGoTogether) {
  const Operator op =
      parse_operator("moe-ep-shared t=512 h=1024 f=768 s=1024 experts=16 k=4 ranks=1 dtype=bf16");
  const Machine machine = default_machine(op.ranks);
  EXPECT_TRUE(legal(op, schedule_of(find_preset("library"), op, machine), machine).empty());
  const OperatorSchedule found = auto_schedules(op, machine, load_tuning()).schedule;
  EXPECT_TRUE(legal(op, found, machine).empty());
  std::string by;
  for (size_t i = 0; i < found.products.size(); ++i) {
    by += fmt::format("{} {} ", found.names[i], to_string(found.products[i].gemm));
  }
  EXPECT_EQ(by, "sa tiles shared library a library routed library ");
}

// No text or tuning file has such products alone.
TEST(OperatorAuto, ServesProductsThatRanksMakeForThemselves) {
  for (const std::string held : {"rows", "whole"}) {
    const auto graph = parse_graph("graph own m h\ninput x [m, h] " + held +
                                   "\ninput w [h, h] whole\ninput v [h, h] cols\ninput c [m, h] "
                                   "cols\ny = gemm x w\nz = gemm c v\noutput y " +
                                   held + "\noutput z rows\n");
    const Operator op = make_graph(graph, {{"m", 512}, {"h", 1024}}, 4, DType::bf16);
    const Machine machine = default_machine(op.ranks);
    const AutoSchedules found = auto_schedules(op, machine, load_tuning());
    EXPECT_TRUE(legal(op, found.schedule, machine).empty());
    EXPECT_LT(us_of(op, found.schedule, machine),
              us_of(op, schedule_of(find_preset("tiles"), op, machine), machine));
  }
}

// Two weights of a gate, tile beside tile, are a product of all their columns: one was measured.
TEST(OperatorAuto, LooksUpGatedProductsByTheColumnsOfBothWeights) {
  const Operator op = parse_operator("mlp m=2048 h=8192 f=7168 ranks=2 dtype=bf16");
  const std::string reason = auto_schedules(op, default_machine(2), load_tuning()).reason;
  EXPECT_NE(reason.find("up: the fastest of"), std::string::npos) << reason;
  EXPECT_NE(reason.find("measured on this shape: 327"), std::string::npos) << reason;
}

// Tiles of one weight may be too narrow for two.
TEST(OperatorAuto, ServesGatedProductsOfFewColumns) {
  const auto graph = parse_graph(
      "graph gated m h f\ninput x [m, h] rows\ninput w [f, h] rows\ninput v [f, h] rows\n"
      "g = gemm x w\nu = gemm x v\ny = swiglu g u\noutput y cols\n");
  for (const int64_t m : {13, 54}) {
    const Operator op = make_graph(graph, {{"m", m}, {"h", 24}, {"f", 12}}, 4, DType::bf16);
    const Machine machine = default_machine(4);
    const AutoSchedules found = auto_schedules(op, machine, load_tuning());
    EXPECT_THAT(legal(op, found.schedule, machine), testing::IsEmpty());
  }
}

TEST(OperatorAuto, IsNotClearlySlowerThanAPresetForAll) {
  for (const std::string text :
       {"mlp m=512 h=4096 f=14336 ranks=2", "mlp m=512 h=8192 f=7168 ranks=2",
        "layer m=512 h=1024 f=2048 heads=8 kv-heads=8 head-dim=128 ranks=2"}) {
    SCOPED_TRACE(text);
    const Operator op = parse_operator(text + " dtype=bf16");
    const Machine machine = default_machine(op.ranks);
    const AutoSchedules found = auto_schedules(op, machine, load_tuning());
    ASSERT_TRUE(legal(op, found.schedule, machine).empty());
    const double us = us_of(op, found.schedule, machine);
    // By 7 % of what is expected, where measurements count beside the simulation.
    for (const std::string_view name : {"tiles", "low-latency", "library"}) {
      EXPECT_LE(us, 1.08 * us_of(op, schedule_of(find_preset(name), op, machine), machine)) << name;
    }
  }
}

}  // namespace
}  // namespace stretto
