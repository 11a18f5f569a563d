// What a report's file holds, whatever browser shows it; test_page.py has more of that.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "stretto/error.h"
#include "stretto/lower.h"
#include "stretto/perfetto.h"
#include "stretto/report.h"

namespace stretto {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const Machine& machine() {
  static const Machine found = default_machine(2);
  return found;
}

Plan plan_by(std::string_view strategy, int ranks = 2) {
  const Operator op = parse_operator("gemm-rs m=256 n=256 k=128", {ranks, DType::bf16});
  return lower(op, schedule_of(find_preset(strategy), op, machine()), machine());
}

std::string report_of(const Plan& plan, const std::string& name, size_t most_text_bytes = 1 << 20) {
  HtmlReport report(plan.op, machine());
  report.add({name, ""}, plan, simulate(plan, machine()), check(plan));
  report.add({"again", ""}, plan, simulate(plan, machine()), check(plan));
  report.add_refused("other", {"because of @DATA@"});
  return report.finish(most_text_bytes);
}

nlohmann::json data_of(const std::string& page) {
  const std::string begin = "id=\"data\">";
  const size_t at = page.find(begin) + begin.size();
  return nlohmann::json::parse(page.substr(at, page.find("</script>", at) - at));
}

TEST(HtmlReport, HoldsWhatItIsToldAsItIs) {
  const std::string name = "a</script><b>&\"'@STYLE@\n\xff";
  const std::string page = report_of(plan_by("tiles"), name);
  EXPECT_THAT(page, Not(HasSubstr("<b>")));
  EXPECT_EQ(data_of(page)["runs"][0]["name"], "a</script><b>&\"'@STYLE@\n\xEF\xBF\xBD");
  EXPECT_EQ(data_of(page)["refused"][0]["reasons"][0], "because of @DATA@");
}

TEST(HtmlReport, HasAPlanOnceAndNoneThatIsTooLarge) {
  const nlohmann::json once = data_of(report_of(plan_by("tiles"), "first"));
  EXPECT_TRUE(once["runs"][0].contains("text"));
  EXPECT_FALSE(once["runs"][1].contains("text"));
  EXPECT_EQ(once["runs"][1]["text_of"], 0);
  const nlohmann::json none = data_of(report_of(plan_by("tiles"), "first", 10));
  EXPECT_FALSE(none["runs"][0].contains("text"));
}

TEST(HtmlReport, OfNothingIsAPage) {
  const Plan plan = plan_by("tiles");
  const nlohmann::json data = data_of(HtmlReport(plan.op, machine()).finish());
  EXPECT_EQ(data["operator"], "gemm-rs m=256 n=256 k=128 ranks=2 dtype=bf16");
  EXPECT_TRUE(data["runs"].empty());
}

TEST(TimelinePicture, ShowsLanesAndWhatIsExposed) {
  TimelinePicture picture("a < b");
  for (const char* name : {"sequential", "tiles"}) {
    const Plan plan = plan_by(name);
    picture.add(name, plan, simulate(plan, machine()));
  }
  const std::string svg = picture.finish();
  EXPECT_THAT(svg, HasSubstr("<title>a &lt; b</title>"));
  for (const char* text : {">sequential<", ">tiles<", ">collective<", ">link<", ">exposed<"}) {
    EXPECT_THAT(svg, HasSubstr(text));
  }
  EXPECT_THAT(svg, HasSubstr("prefers-color-scheme:dark"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

TEST(ReadPerfetto, GivesBackWhatWasWritten) {
  const Plan plan = plan_by("tiles");
  const Simulation simulated = simulate(plan, machine());
  for (const bool is_measured : {false, true}) {
    const Timeline& timeline = simulated;
    const TracedRun run = read_perfetto(
        is_measured ? to_perfetto(plan, timeline) : to_perfetto(plan, simulated), "t.json");
    EXPECT_EQ(run.is_measured, is_measured);
    EXPECT_NEAR(run.timeline.total_us, simulated.total_us, 2e-3);
    EXPECT_EQ(run.timeline.links.size(), simulated.links.size());
    size_t tasks = 0, read_tasks = 0;
    for (const Span& span : simulated.spans) {
      tasks += plan.lanes[span.where.lane].instrs[span.where.pos].is_task();
    }
    for (const Span& span : run.timeline.spans) {
      read_tasks += plan.lanes[span.where.lane].instrs[span.where.pos].is_task();
    }
    EXPECT_EQ(read_tasks, tasks);
    EXPECT_NO_THROW(require_same(run, plan, "t.json"));
    EXPECT_THROW(require_same(run, plan_by("slices"), "t.json"), UsageError);
    EXPECT_THROW(require_same(run, plan_by("tiles", 4), "t.json"), UsageError);
  }
}

TEST(ReadPerfetto, RefusesWhatIsNoTrace) {
  for (const char* text :
       {"", "[]", "{}", R"({"traceEvents": 3})", R"({"traceEvents": [], "otherData": {}})",
        R"({"traceEvents": [], "otherData": {"operator": "x", "tiles": {}}})",
        R"({"traceEvents": [{"ph": "X"}], "otherData": {"operator": "x", "schedule": "y"}})",
        R"({"traceEvents": [{"ph": "X", "ts": -1, "dur": 1, "tid": 0, "pid": 0,
            "args": {"instruction": 0}}], "otherData": {"operator": "x", "schedule": "y"}})",
        R"({"traceEvents": [{"ph": 5}], "otherData": {"operator": "x", "schedule": "y"}})"}) {
    try {
      read_perfetto(text, "t.json");
      ADD_FAILURE() << text;
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(), HasSubstr("t.json: "));
    }
  }
}

}  // namespace
}  // namespace stretto
