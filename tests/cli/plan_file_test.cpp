// Plan files: read back exactly, and refused with line and column when they are damaged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "stretto/lower.h"
#include "stretto/serve.h"

namespace stretto {
namespace {

using testing::HasSubstr;
using testing::Not;

class PlanFile : public testing::Test {
 protected:
  std::string small_plan() {
    const Said said = stretto_says(std::vector<std::string>{"plan"} + small_operator());
    EXPECT_EQ(said.exit_code, 0) << said.err;
    return said.out;
  }

  // One line that names the file, exit code 2.
  std::string refusal(const std::string& content) {
    const Said said = stretto_says({"check", scratch_.file("bad.plan", content)});
    EXPECT_EQ(said.exit_code, 2) << said.out;
    EXPECT_EQ(std::count(said.err.begin(), said.err.end(), '\n'), 1) << said.err;
    EXPECT_THAT(said.err, HasSubstr("bad.plan:"));
    return said.err;
  }

  ScratchFolder scratch_;
};

TEST_F(PlanFile, WhatAStageRefusesHasItsPlaceToo) {
  std::string text = small_plan();
  const std::string declared = "buffer b bf16 160x32 input";
  const size_t at = text.find(declared);
  ASSERT_NE(at, std::string::npos) << text;
  const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<long>(at), '\n');
  const std::string other = text.replace(at, declared.size(), "buffer b bf16 161x32 input");
  const std::string file = scratch_.file("other.plan", other);
  const Said run = stretto_says({"run", file});
  EXPECT_EQ(run.exit_code, 2) << run.out;
  EXPECT_THAT(run.err,
              HasSubstr(file + ":" + std::to_string(line) + ": buffer b on rank 0 is 161"));
  const Said few = stretto_says({"simulate", scratch_.file("a.plan", small_plan()), "--rows", "5"});
  EXPECT_EQ(few.exit_code, 2) << few.out;
  EXPECT_THAT(few.err, HasSubstr("a.plan: this plan serves 192 rows only"));
}

TEST_F(PlanFile, WhoseNameHasControlCharactersKeepsMessagesInTheirLines) {
  const std::string file = scratch_.file("a\n\x1b[31m.plan", small_plan());
  const Said said = stretto_says({"check", file});
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_THAT(said.out, HasSubstr("a\\x0a\\x1b[31m.plan"));
  EXPECT_EQ(std::count(said.out.begin(), said.out.end(), '\n'), 2) << said.out;
}

TEST_F(PlanFile, IsPrintedAgainExactly) {
  const std::string text = small_plan();
  const Said again = stretto_says({"plan", scratch_.file("a.plan", text)});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(again.out, text);
}

TEST_F(PlanFile, IsCheckedSimulatedAndRun) {
  const std::string file = scratch_.file("a.plan", small_plan());
  for (const char* verb : {"check", "simulate", "run"}) {
    const Said said = stretto_says({verb, file});
    EXPECT_EQ(said.exit_code, 0) << verb << ": " << said.err << said.out;
    EXPECT_THAT(said.out, HasSubstr("a.plan")) << verb;
  }
}

TEST_F(PlanFile, RefusesOptionsThatItWouldIgnore) {
  const Said said = stretto_says({"check", scratch_.file("a.plan", small_plan()), "--m", "64"});
  EXPECT_EQ(said.exit_code, 2);
  EXPECT_THAT(said.err, HasSubstr("--m does not go with a plan file"));
}

TEST_F(PlanFile, IsNotReplacedByWhatIsSaidOfIt) {
  const std::string text = small_plan();
  const std::string plan = scratch_.file("a.plan", text);
  for (const char* verb : {"run", "check", "simulate", "plan"}) {
    const Said said = stretto_says({verb, plan, "-o", plan});
    EXPECT_EQ(said.exit_code, 2);
    EXPECT_THAT(said.err, HasSubstr("the result would take its place"));
  }
  EXPECT_EQ(content_of(plan), text);
}

TEST_F(PlanFile, WithoutLanesIsDiagnosed) {
  const std::string file = scratch_.file("idle.plan",
                                         "stretto-plan 2\n"
                                         "operator gemm-rs m=8 n=8 k=8 ranks=2 dtype=bf16\n"
                                         "sms 1\n"
                                         "buffer out bf16 4x8 output sharded=8\n"
                                         "end\n");
  for (const std::vector<std::string>& form : {std::vector<std::string>{}, {"--json"}}) {
    const Said said = stretto_says(std::vector<std::string>{"check", file} + form);
    EXPECT_EQ(said.exit_code, 1) << said.err;
    EXPECT_THAT(said.out, HasSubstr("no task writes out@1[0:4,0:8]"));
  }
}

TEST_F(PlanFile, WithoutWorkHasNoSpeedUp) {
  const std::string file = scratch_.file("idle.plan",
                                         "stretto-plan 2\n"
                                         "operator gemm-rs m=8 n=8 k=8 ranks=2 dtype=bf16\n"
                                         "sms 1\n"
                                         "end\n");
  EXPECT_THAT(stretto_says({"simulate", file}).out, Not(HasSubstr("inf")));
  EXPECT_THAT(stretto_says({"simulate", file, "--json"}).out,
              HasSubstr("\"speedup_over_sequential\": null"));
}

TEST_F(PlanFile, EmptyIsRefused) { EXPECT_THAT(refusal(""), HasSubstr("expected")); }

TEST_F(PlanFile, BinaryIsRefused) {
  std::string bytes;
  for (int i = 0; i < 4096; ++i) bytes += static_cast<char>((i * 37 + 11) % 256);
  EXPECT_THAT(refusal(bytes), HasSubstr("expected"));
}

TEST_F(PlanFile, NewerVersionIsRefusedAsSuch) {
  std::string text = small_plan();
  const size_t digit = text.find_first_of("0123456789");
  ASSERT_NE(digit, std::string::npos);
  text.replace(digit, 1, "999");
  EXPECT_THAT(refusal(text), HasSubstr("999"));
}

// Cut at many places, a plan is refused, or (cut where it still is one) says what is missing.
TEST_F(PlanFile, TruncatedIsNeverGood) {
  const std::string text = small_plan();
  for (size_t i = 1; i < 24; ++i) {
    const std::string cut = text.substr(0, text.size() * i / 24);
    const Said said = stretto_says({"check", scratch_.file("cut.plan", cut)});
    EXPECT_THAT(said.exit_code, testing::AnyOf(1, 2)) << "cut at " << cut.size() << said.err;
  }
}

TEST_F(PlanFile, DeletedWaitIsFoundWithPlaceAndHint) {
  std::string text = small_plan();
  const size_t wait = text.find("\n  wait ");
  ASSERT_NE(wait, std::string::npos);
  text.erase(wait + 1, text.find('\n', wait + 1) - wait);
  const Said said = stretto_says({"check", scratch_.file("broken.plan", text)});
  EXPECT_EQ(said.exit_code, 1);
  EXPECT_THAT(said.out, HasSubstr("rank "));
  EXPECT_THAT(said.out, HasSubstr("hint: "));
}

TEST_F(PlanFile, WithoutItsOutputIsNotClean) {
  const std::string text =
      "stretto-plan 2\noperator gemm-rs m=64 n=32 k=64 ranks=2 dtype=bf16\nsms 8\nend\n";
  const Said said = stretto_says({"check", scratch_.file("empty.plan", text)});
  EXPECT_EQ(said.exit_code, 1);
  EXPECT_THAT(said.out, HasSubstr("no output buffer named out"));
}

TEST_F(PlanFile, RunOfABrokenPlanFails) {
  std::string text = small_plan();
  size_t notify = text.find("\n  notify ");
  ASSERT_NE(notify, std::string::npos);
  text.erase(notify + 1, text.find('\n', notify + 1) - notify);
  const Said said = stretto_says({"run", scratch_.file("stuck.plan", text)});
  EXPECT_EQ(said.exit_code, 1);
  EXPECT_THAT(said.out, HasSubstr("waits for"));
}

TEST_F(PlanFile, SimulationOfAPlanThatNeverEndsFails) {
  std::string text = small_plan();
  const size_t notify = text.find("\n  notify ");
  ASSERT_NE(notify, std::string::npos);
  text.erase(notify + 1, text.find('\n', notify + 1) - notify);
  const Said said = stretto_says({"simulate", scratch_.file("stuck.plan", text)});
  EXPECT_EQ(said.exit_code, 1);
  EXPECT_THAT(said.err, HasSubstr("the plan never ends: "));
}

// What ranks enqueue for a run is the program of the plan for all rows, which is proved with it.
TEST_F(PlanFile, ARunOfFewerRowsIsProvedWithItsWholePlan) {
  const Said made = stretto_says({"plan", "gemm-rs", "--m", "96", "--n", "32", "--k", "64",
                                  "--ranks", "2", "--schedule", "tiles,rows=bucket,tile=32x32"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  const auto results = [&](const std::string& text, int exit_code) {
    const Said said =
        stretto_says({"check", scratch_.file("b.plan", text), "--rows", "50", "--json"});
    EXPECT_EQ(said.exit_code, exit_code) << said.err;
    return nlohmann::json::parse(said.out).at("results");
  };
  const auto good = results(made.out, 0);
  ASSERT_EQ(good.size(), 1u);
  EXPECT_TRUE(good[0].at("check").at("no_program").is_null());
  std::string text = made.out;
  const size_t wait = text.find("\n  wait ");
  ASSERT_NE(wait, std::string::npos);
  text.erase(wait + 1, text.find('\n', wait + 1) - wait);
  const auto bad = results(text, 1);
  EXPECT_EQ(bad.back().at("strategy"), "b.plan, all 96 rows");
  EXPECT_FALSE(bad.back().at("check").at("clean"));
}

// A line is enough to say that a plan is a run, so nothing is left out for it.
TEST_F(PlanFile, WhatSaysThatItIsARunIsProvedAlone) {
  const Said made = stretto_says({"plan", "gemm-rs", "--m", "96", "--n", "32", "--k", "64",
                                  "--ranks", "2", "--schedule", "tiles,rows=bucket,tile=32x32"});
  const auto as_run = [](std::string text) {
    return text.insert(text.find("schedule "), "run-of 200\n");
  };
  const auto checked = [&](const std::string& text) {
    return stretto_says({"check", scratch_.file("lie.plan", text)});
  };
  const Said good = checked(as_run(made.out));
  EXPECT_EQ(good.exit_code, 0) << good.err;
  EXPECT_THAT(good.out, HasSubstr("clean, enqueued alone"));
  EXPECT_THAT(good.out, HasSubstr("it says that it is a run of a plan for 200 rows"));
  const Said rows =
      stretto_says({"check", scratch_.file("lie.plan", as_run(made.out)), "--rows", "50"});
  EXPECT_EQ(rows.exit_code, 2);
  EXPECT_THAT(rows.err, HasSubstr("it is itself a run of the plan for 200 rows: take that plan"));
  const Said fixed = stretto_says({"plan", "gemm-rs", "--m", "96", "--n", "32", "--k", "64",
                                   "--ranks", "2", "--schedule", "sequential"});
  const Said refused = checked(as_run(fixed.out));
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("lie.plan: expected a plan of its own, without run-of 200"));
}

// Its lanes are in order, but not the one stream that a program of its own would have.
TEST_F(PlanFile, WhatSaysThatItIsARunHasFaultsOfItsProgram) {
  const Segment op = parse_segment("gemm-rs m=7 n=8 k=2177 ranks=7 dtype=bf16");
  Machine machine = default_machine(7);
  machine.sms = 9;
  const Plan plan =
      lower(op, parse_schedule("slices,tile=64x16,comm-sms=1,split-k=5,rows=bucket", op, machine),
            machine);
  const Said said = stretto_says({"check", scratch_.file("r.plan", print(at_rows(plan, 1)))});
  EXPECT_EQ(said.exit_code, 1) << said.err;
  EXPECT_THAT(said.out, HasSubstr("program-deadlock"));
  EXPECT_THAT(said.out, HasSubstr("r.plan: it says that it is a run of a plan for 7 rows"));
  const Said whole =
      stretto_says({"check", scratch_.file("whole.plan", print(plan)), "--rows", "1"});
  EXPECT_EQ(whole.exit_code, 0) << whole.err;
}

TEST_F(PlanFile, AFolderIsASystemFault) {
  const Said said = stretto_says({"check", scratch_.path("")});
  EXPECT_EQ(said.exit_code, 3);
  EXPECT_THAT(said.err, HasSubstr("directory"));
}

}  // namespace
}  // namespace stretto
