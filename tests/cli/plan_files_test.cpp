// Plan files beside each other: `stretto check a.plan b.plan`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/command.h"

namespace stretto {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;
using testing::Not;

class PlanFiles : public testing::Test {
 protected:
  std::string plan_of(const std::string& name, const std::vector<std::string>& operator_words) {
    const std::string path = scratch_.path(name);
    const Said said = stretto_says(std::vector<std::string>{"plan"} + operator_words +
                                   std::vector<std::string>{"-o", path});
    EXPECT_EQ(said.exit_code, 0) << said.err;
    return path;
  }
  std::string small(const std::string& name, const std::string& strategy) {
    return plan_of(name, small_operator() + std::vector<std::string>{"--strategy", strategy});
  }
  // As somebody edits it: a wait is gone.
  std::string without_wait(const std::string& name, const std::string& path) {
    std::string text = content_of(path);
    const size_t at = text.find("\n  wait ");
    EXPECT_NE(at, std::string::npos);
    return scratch_.file(name, text.erase(at, text.find('\n', at + 1) - at));
  }
  std::string refusal(const std::vector<std::string>& arguments) {
    const Said said = stretto_says(arguments);
    EXPECT_EQ(said.exit_code, 2) << said.out;
    return said.err;
  }

  ScratchFolder scratch_;
};

TEST_F(PlanFiles, StandInOneTable) {
  const std::string a = small("a.plan", "tiles"), b = small("b.plan", "slices");
  for (const char* verb : {"check", "simulate", "run"}) {
    const Said said = stretto_says({verb, a, b});
    EXPECT_EQ(said.exit_code, 0) << verb << said.err;
    EXPECT_THAT(said.out, HasSubstr("\na.plan ")) << verb;
    EXPECT_THAT(said.out, HasSubstr("\nb.plan ")) << verb;
  }
  const Said chart = stretto_says({"simulate", a, b, "--chart"});
  EXPECT_THAT(chart.out, HasSubstr("a.plan: total"));
  EXPECT_THAT(chart.out, HasSubstr("b.plan: total"));
  EXPECT_EQ(stretto_says({"report", a, b, "-o", scratch_.path("report.html")}).exit_code, 0);
}

TEST_F(PlanFiles, AreToldApartWhereOneIsWrong) {
  const std::string a = small("a.plan", "tiles"), bad = without_wait("bad.plan", a);
  const Said said = stretto_says({"check", a, bad, "--json"});
  EXPECT_EQ(said.exit_code, 1);
  const Json found = Json::parse(said.out)["results"];
  ASSERT_EQ(found.size(), 2u);
  EXPECT_TRUE(found[0]["check"]["clean"].get<bool>());
  EXPECT_FALSE(found[1]["check"]["clean"].get<bool>());
  EXPECT_TRUE(found[1]["check"]["diagnostics"][0]["where"].contains("line"));
  const Said words = stretto_says({"check", a, bad});
  EXPECT_THAT(words.out, HasSubstr(bad + ":"));
  EXPECT_THAT(words.out, Not(HasSubstr(a + ":")));
  // Both say that they are by the same schedule.
  const Said predicted = stretto_says({"simulate", a, bad});
  EXPECT_THAT(predicted.out, Not(HasSubstr("same schedule")));
  EXPECT_THAT(predicted.out, HasSubstr(" in " + bad));
}

TEST_F(PlanFiles, OfOneNameHaveTheirFolders) {
  const std::string a = small("a.plan", "tiles");
  std::filesystem::create_directory(scratch_.path("other"));
  const std::string b = scratch_.file("other/a.plan", content_of(a));
  const Said said = stretto_says({"check", a, b, "--json"});
  EXPECT_THAT(said.out, HasSubstr("\"strategy\": \"" + a + "\""));
  EXPECT_THAT(said.out, HasSubstr("\"strategy\": \"" + b + "\""));
}

TEST_F(PlanFiles, AreOfOneOperatorAndThere) {
  const std::string a = small("a.plan", "tiles");
  const std::string other = plan_of("other.plan", {"gemm-rs", "64x64x64@2"});
  EXPECT_THAT(refusal({"simulate", a, other}), HasSubstr("are of one operator"));
  EXPECT_THAT(refusal({"simulate", a, scratch_.path("c.plan")}), HasSubstr("no plan file"));
  EXPECT_THAT(refusal({"simulate", a, "m=64"}), HasSubstr("'m=64' does not go with a plan file"));
  EXPECT_THAT(refusal({"simulate", a, a}), HasSubstr("stands there twice"));
  EXPECT_THAT(refusal({"plan", a, small("b.plan", "slices")}), HasSubstr("name one file"));
  EXPECT_THAT(refusal({"check", small("b.plan", "slices"), a, "-o", a}),
              HasSubstr("the result would take its place"));
}

TEST_F(PlanFiles, HaveNoTimesOfTheScheduleThatTheyName) {
  // Of this shape and schedule the shipped tuning file has a time.
  const std::vector<std::string> words = {"gemm-rs", "512x8192x14336@4", "--strategy", "sequential",
                                          "--json"};
  const Said of_schedule = stretto_says(std::vector<std::string>{"report"} + words);
  ASSERT_EQ(of_schedule.exit_code, 0) << of_schedule.err;
  EXPECT_TRUE(Json::parse(of_schedule.out)["results"][0]["measured_us"].is_number());
  const std::string a =
      plan_of("a.plan", {"gemm-rs", "512x8192x14336@4", "--strategy", "sequential"});
  const Said of_file = stretto_says({"report", a, "--json"});
  ASSERT_EQ(of_file.exit_code, 0) << of_file.err;
  EXPECT_TRUE(Json::parse(of_file.out)["results"][0]["measured_us"].is_null());
}

}  // namespace
}  // namespace stretto
