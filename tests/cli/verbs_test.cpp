// What each verb says when all is well.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "cli/command.h"
#include "stretto/schedule.h"

namespace stretto {
namespace {

using testing::HasSubstr;
using Words = std::vector<std::string>;

TEST(Verbs, RunComparesAllStrategies) {
  const Said said = stretto_says(Words{"run"} + small_operator() + Words{"--strategy", "all"});
  EXPECT_EQ(said.exit_code, 0) << said.err;
  for (const char* name : {"sequential", "decomposed", "waves", "tiles", "slices"}) {
    EXPECT_THAT(said.out, HasSubstr(name));
  }
  EXPECT_THAT(said.out, testing::Not(HasSubstr("NO")));
}

TEST(Verbs, RunServesEveryOperatorAndFill) {
  for (const char* op : {"ag-gemm", "gemm-rs", "gemm-ar"}) {
    for (const char* fill : {"integers", "random", "specials", "subnormals"}) {
      const Said said = stretto_says({"run", op, "--m", "97", "--n", "96", "--k", "64", "--ranks",
                                      "2", "--fill", fill, "--strategy", "sequential,tiles"});
      EXPECT_EQ(said.exit_code, 0) << said.err << said.out;
    }
  }
}

TEST(Verbs, RunServesFewerRowsThanPlanned) {
  for (const char* op : {"ag-gemm", "gemm-rs", "gemm-ar"}) {
    for (const char* rows : {"1", "37", "96"}) {
      const Said said = stretto_says({"run", op, "--m", "96", "--rows", rows, "--n", "96", "--k",
                                      "64", "--ranks", "2", "--strategy", "tiles,slices"});
      EXPECT_EQ(said.exit_code, 0) << said.err << said.out;
      EXPECT_THAT(said.out, HasSubstr(std::string(op) + " m=" + rows + " "));
    }
  }
}

// What was fastest with all rows may not serve fewer.
TEST(Verbs, AutoServesTheRowsOfTheRun) {
  const Said said = stretto_says({"run", "ag-gemm", "--m", "16", "--rows", "8", "--n", "2560",
                                  "--k", "8192", "--ranks", "2", "--strategy", "auto"});
  EXPECT_EQ(said.exit_code, 0) << said.err << said.out;
  EXPECT_THAT(said.out, HasSubstr("rows=bucket"));
}

TEST(Verbs, RunTakesASchedule) {
  const Said said =
      stretto_says(Words{"run"} + small_operator() + Words{"--schedule", "tiles,tile=64x64"});
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_THAT(said.out, HasSubstr("tile=64x64"));
}

TEST(Verbs, CheckSaysWhatItProved) {
  const Said said = stretto_says(Words{"check"} + small_operator() + Words{"--strategy", "all"});
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_THAT(said.out, testing::ContainsRegex("tiles +clean +[0-9]+"));
  EXPECT_THAT(said.out, HasSubstr("proved"));
}

// What ranks enqueue is proved too, where GPUs can run the plan.
TEST(Verbs, CheckSaysWhereNoProgramWasThereToProve) {
  const Words fp32 = {"check",   "gemm-rs", "m=64",    "n=64", "k=64",
                      "--ranks", "2",       "--dtype", "fp32"};
  const Said said = stretto_says(fp32 + Words{"--strategy", "tiles"});
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_THAT(said.out, HasSubstr("clean, no program"));
  EXPECT_THAT(said.out, HasSubstr("tiles: GPUs have no program for it: the GEMM"));
  const auto check_of = [](const Words& words) {
    const Said json = stretto_says(words + Words{"--strategy", "tiles", "--json"});
    return nlohmann::json::parse(json.out).at("results").at(0).at("check");
  };
  EXPECT_EQ(check_of(fp32).at("no_program"),
            "the GEMM kernel multiplies bf16 and fp16, not fp32: take dtype=bf16 or fp16");
  EXPECT_TRUE(check_of(Words{"check"} + small_operator()).at("no_program").is_null());
}

TEST(Verbs, CheckProvesAllThatTuneWouldMeasure) {
  const Words sweep = {"--strategy", "sweep", "--json"};
  const Said said = stretto_says(Words{"check"} + small_operator() + sweep);
  EXPECT_EQ(said.exit_code, 0) << said.err;
  const auto proved = nlohmann::json::parse(said.out);
  EXPECT_TRUE(proved.at("clean").get<bool>());
  const auto timed =
      nlohmann::json::parse(stretto_says(Words{"simulate"} + small_operator() + sweep).out);
  std::set<std::string> schedules;
  for (const auto& one : proved.at("results")) schedules.insert(one.at("schedule"));
  EXPECT_EQ(schedules.size(), proved.at("results").size());
  EXPECT_EQ(timed.at("results").size(), schedules.size());
  EXPECT_GT(schedules.size(), presets().size());
  EXPECT_EQ(proved.at("results")[0].at("strategy"), "sequential");
}

TEST(Verbs, SimulateDrawsATimeline) {
  const Said said = stretto_says(Words{"simulate"} + small_operator() + Words{"--critical-path"});
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_THAT(said.out, HasSubstr("rank 0"));
  EXPECT_THAT(said.out, HasSubstr("critical path"));
}

TEST(Verbs, SimulateDrawsSeveralStrategiesWhenAsked) {
  const Words command =
      Words{"simulate"} + small_operator() + Words{"--strategy", "sequential,tiles"};
  EXPECT_THAT(stretto_says(command).out, testing::Not(HasSubstr("rank 0\n")));
  const Said said = stretto_says(command + Words{"--chart"});
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_THAT(said.out,
              testing::ContainsRegex("\nsequential: total [^\n]+\ncommunication [^\n]+\nrank 0\n"));
  EXPECT_THAT(said.out,
              testing::ContainsRegex("\ntiles: total [^\n]+\ncommunication [^\n]+\nrank 0\n"));
}

TEST(Verbs, SimulateTracesSeveralStrategies) {
  const ScratchFolder scratch;
  const std::string path = scratch.path("trace.json");
  const Said said = stretto_says(Words{"simulate"} + small_operator() +
                                 Words{"--strategy", "sequential,tiles", "--perfetto", path});
  EXPECT_EQ(said.exit_code, 0) << said.err;
  const auto other = nlohmann::json::parse(content_of(path)).at("otherData");
  EXPECT_EQ(other.at("machine"), "h200x8");
  EXPECT_TRUE(other.contains("sequential"));
  EXPECT_EQ(other.at("tiles").at("timeline"), "predicted");
}

TEST(Verbs, PlanDumpsAfterAStep) {
  const Said before =
      stretto_says(Words{"plan"} + small_operator() + Words{"--dump-after", "emit_tasks"});
  EXPECT_EQ(before.exit_code, 0) << before.err;
  EXPECT_THAT(before.out, HasSubstr("gemm"));
  EXPECT_THAT(before.out, testing::Not(HasSubstr("\n  wait ")));
  const Said after = stretto_says(Words{"plan"} + small_operator());
  EXPECT_THAT(after.out, HasSubstr("\n  wait "));
}

TEST(Verbs, PlanOfAStepTellsItsOwnCountsAndThePlansOperator) {
  const Words command = Words{"plan"} + small_operator() + Words{"--dump-after"};
  const auto whole =
      nlohmann::json::parse(stretto_says(Words{"plan"} + small_operator() + Words{"--json"}).out);
  const auto cut = nlohmann::json::parse(stretto_says(command + Words{"cut_tiles", "--json"}).out);
  EXPECT_THAT(cut.at("text").get<std::string>(),
              HasSubstr("operator gemm-rs m=192 n=160 k=128 ranks=4 dtype=bf16\n"));
  EXPECT_EQ(cut.at("schedule"), whole.at("schedule"));
  EXPECT_EQ(cut.at("plan").at("lanes"), 0);
  const auto tasks =
      nlohmann::json::parse(stretto_says(command + Words{"emit_tasks", "--json"}).out);
  EXPECT_EQ(tasks.at("plan").at("tasks"), whole.at("plan").at("tasks"));
  EXPECT_EQ(tasks.at("plan").at("waits"), 0);
  EXPECT_GT(whole.at("plan").at("waits"), 0);
}

TEST(Verbs, PlanTellsItsMemoryBetweenRanks) {
  const Words command = Words{"plan"} + small_operator() + Words{"--workspace"};
  const auto memory_of = [](const Words& words) {
    return nlohmann::json::parse(stretto_says(words + Words{"--json"}).out).at("memory");
  };
  const auto tiles = memory_of(command);
  ASSERT_EQ(tiles.size(), 1u);
  EXPECT_EQ(tiles[0].at("rows"), 192);
  EXPECT_GT(tiles[0].at("workspace_bytes"), 0);
  EXPECT_EQ(tiles[0].at("slot_bytes"), 0);
  const auto few = memory_of(command + Words{"--strategy", "low-latency"});
  EXPECT_GT(few[0].at("slot_bytes"), 0);
  EXPECT_THAT(stretto_says(command).out, HasSubstr("\nall "));

  // Rows of experts in order, gate and up, and down: of 64 tokens with 2 choices at least.
  const Words experts = {"plan", "moe-ep",     "t=64",       "h=128",   "f=256", "experts=4",
                         "k=2",  "--strategy", "sequential", "--ranks", "1",     "--workspace"};
  const auto of_one = memory_of(experts);
  EXPECT_EQ(of_one[0].at("workspace_bytes"), 0);
  EXPECT_GE(of_one[0].at("own_bytes"), 64 * 2 * (256 + 128) * 2);
  EXPECT_THAT(stretto_says(experts).out, HasSubstr("own"));

  const auto served = memory_of({"plan", "gemm-rs", "1Kx512x512@4", "--workspace", "--serve"});
  ASSERT_GE(served.size(), 3u);
  EXPECT_EQ(served.front().at("rows"), 256);
  EXPECT_EQ(served.back().at("rows"), 1024);
}

TEST(Verbs, ListsNameSources) {
  EXPECT_THAT(stretto_says({"strategies"}).out, HasSubstr("arXiv"));
  EXPECT_THAT(stretto_says({"strategies"}).out, HasSubstr("peer-staggered"));
  EXPECT_THAT(stretto_says({"machines"}).out, HasSubstr("h200x16"));
  EXPECT_THAT(stretto_says({"machines", "h200x8"}).out, HasSubstr("sources"));
}

// An operator's schedule is more than those of its products.
TEST(Verbs, StrategiesSayWhatStandsBetweenSchedulesToo) {
  const std::string out = stretto_says({"strategies"}).out;
  EXPECT_THAT(out, testing::AllOf(HasSubstr("split=2"), HasSubstr("TokenWeave")));
  const std::string line = "split=2/tiles/down:slices";
  ASSERT_THAT(out, HasSubstr(line));
  const Said said =
      stretto_says({"check", "mlp", "m=96", "h=64", "f=96", "--ranks", "3", "--schedule", line});
  EXPECT_EQ(said.exit_code, 0) << said.err;
}

TEST(Verbs, EnvListsEveryVariableThatSourcesName) {
  const std::string listed = stretto_says({"env"}).out;
  const std::regex named("\"(STRETTO_[A-Z_]+)\"");
  std::set<std::string> names;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(STRETTO_TEST_DIR "/../../src")) {
    if (!entry.is_regular_file()) continue;
    const std::string text = content_of(entry.path().string());
    for (std::sregex_iterator it(text.begin(), text.end(), named), end; it != end; ++it) {
      names.insert((*it)[1]);
    }
  }
  EXPECT_GT(names.size(), 10u);
  for (const std::string& name : names) EXPECT_THAT(listed, HasSubstr(name + " "));
}

TEST(Verbs, EnvDoesNotTellASecret) {
  const std::string secret(64, 'e');
  ::setenv("STRETTO_JOB_SECRET", secret.c_str(), 1);
  const Said said = stretto_says({"env"});
  ::unsetenv("STRETTO_JOB_SECRET");
  EXPECT_THAT(said.out, HasSubstr("now '(hidden)'"));
  EXPECT_THAT(said.out, testing::Not(HasSubstr(secret)));
}

TEST(Verbs, MachinesOfTheUserAreNamedByTheirPaths) {
  const ScratchFolder scratch;
  const std::string file = scratch.file("h200x8.json", "{");
  ::setenv("STRETTO_MACHINE_PATH", scratch.path("").c_str(), 1);
  // The second has the first for a base.
  for (const char* name : {"h200x8", "h100x8"}) {
    const Said said = stretto_says({"machines", name});
    EXPECT_EQ(said.exit_code, 2);
    EXPECT_THAT(said.err, HasSubstr(file + "'")) << name;
  }
  ::unsetenv("STRETTO_MACHINE_PATH");
}

TEST(Verbs, AMachineFileThatIsALinkToNowhereIsNotUnknown) {
  const ScratchFolder scratch;
  std::filesystem::create_symlink(scratch.path("absent"), scratch.path("mine.json"));
  ::setenv("STRETTO_MACHINE_PATH", scratch.path("").c_str(), 1);
  const Said said = stretto_says({"machines", "mine"});
  ::unsetenv("STRETTO_MACHINE_PATH");
  EXPECT_EQ(said.exit_code, 3);
  EXPECT_THAT(said.err, HasSubstr("cannot read '" + scratch.path("mine.json")));
}

TEST(Verbs, ExploreFindsEveryBugAndNoneInTheTwins) {
  const Said bugs = stretto_says({"explore", "bugs"});
  EXPECT_EQ(bugs.exit_code, 1) << bugs.err;
  EXPECT_THAT(bugs.out, testing::Not(HasSubstr(" clean ")));
  EXPECT_THAT(bugs.out, HasSubstr("again: stretto explore slot_clash --seed 0 --seeds 1"));
  const Said twins = stretto_says({"explore", "twins", "--seeds", "20"});
  EXPECT_EQ(twins.exit_code, 0) << twins.out;
}

TEST(Verbs, ExploreRunsTheKernelsThatItLists) {
  const Said list = stretto_says({"explore"});
  EXPECT_EQ(list.exit_code, 0);
  EXPECT_THAT(list.out, HasSubstr("dispatch_combine_fp8"));
  const Said kernels = stretto_says({"explore", "kernels", "--seeds", "5"});
  EXPECT_EQ(kernels.exit_code, 0) << kernels.out;
  EXPECT_THAT(kernels.out, testing::ContainsRegex("dispatch_combine_fp8 +clean +5"));
}

TEST(Verbs, HelpAndVersionAreGood) {
  EXPECT_EQ(stretto_says({"--help"}).exit_code, 0);
  EXPECT_EQ(stretto_says({"run", "--help"}).exit_code, 0);
  EXPECT_THAT(stretto_says({"--version"}).out, HasSubstr("stretto "));
}

}  // namespace
}  // namespace stretto
