// What is said of a plan file names the file's lines.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "cli/command.h"

namespace stretto {
namespace {

using Json = nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Lines that the tests name: 9 is `buffer out`, 10 the signals, 14 the notify of rank 1, 21 rank
// 0's wait, 22 the sum behind it, 26 the notify of rank 0 by rank 1.
constexpr const char* kPlan = R"(stretto-plan 2
operator gemm-rs m=128 n=64 k=256 ranks=2 dtype=bf16
schedule by-hand
sms 132
; what is stored where
buffer a bf16 128x128 input
buffer b bf16 64x128 input
buffer slots fp32 128x64 symmetric copies=2
buffer out bf16 64x64 output sharded=128
signals slots 1 copies=2

lane 0 compute 0                                      ; a block of rank 0
  gemm #1 a[64:128,0:128] b[0:64,0:128] -> slots@1[0:64,0:64]
  notify slots.0@1 += 1

  ; own rows last
  gemm #0 a[0:64,0:128] b[0:64,0:128] -> slots[0:64,0:64]
  notify slots.0@0 += 1

lane 0 comm 0
  wait slots.0 >= 2
  reduce #0 slots[0:64,0:64] slots[64:128,0:64] -> out[0:64,0:64]

lane 1 compute 0
  gemm #0 a[0:64,0:128] b[0:64,0:128] -> slots@0[64:128,0:64]
  notify slots.0@0 += 1
  gemm #1 a[64:128,0:128] b[0:64,0:128] -> slots[64:128,0:64]
  notify slots.0@1 += 1

lane 1 comm 0
  wait slots.0 >= 2
  reduce #1 slots[0:64,0:64] slots[64:128,0:64] -> out[0:64,0:64]
end
)";

class PlanLines : public testing::Test {
 protected:
  // The plan with some lines changed, which keeps all others where they are.
  std::string with(const std::map<int, std::string>& changes) {
    std::istringstream in(kPlan);
    std::string text, one;
    for (int number = 1; std::getline(in, one); ++number) {
      const auto change = changes.find(number);
      text += (change == changes.end() ? one : change->second) + '\n';
    }
    return scratch_.file("p.txt", text);
  }

  // What is said in words, as one line of single blanks.
  std::string words(std::vector<std::string> arguments, int exit_code = 1) {
    const Said said = stretto_says(arguments);
    EXPECT_EQ(said.exit_code, exit_code) << said.err;
    std::istringstream in(said.out + said.err);
    std::string text, word;
    while (in >> word) text += (text.empty() ? "" : " ") + word;
    return text;
  }

  Json result(std::vector<std::string> arguments, int exit_code = 1) {
    arguments.push_back("--json");
    const Said said = stretto_says(arguments);
    EXPECT_EQ(said.exit_code, exit_code) << said.err;
    const Json json = Json::parse(said.out, nullptr, false);
    EXPECT_FALSE(json.is_discarded()) << said.out;
    return json.at("results").at(0);
  }

  // The first of a kind.
  Json diagnostic(const std::string& file, const std::string& kind) {
    const Json check = result({"check", file}).at("check");
    for (const Json& found : check.at("diagnostics")) {
      if (found.at("kind") == kind) return found;
    }
    ADD_FAILURE() << "nothing is said of " << kind;
    return {};
  }

  ScratchFolder scratch_;
};

TEST_F(PlanLines, OfAWaitAndTheNotifiesItCounts) {
  const std::string file = with({{21, "  wait slots.0 >= 3"}});
  EXPECT_THAT(
      words({"check", file}),
      AllOf(HasSubstr(file + ":21: unreachable-threshold: rank 0 comm 0 instruction 0 (wait "
                             "slots.0 >= 3) asks for too much: one run notifies"),
            HasSubstr(file + ":18: rank 0 compute 0 instruction 3 (notify slots.0@0 += 1) " + file +
                      ":26: rank 1 compute 0 instruction 1 (notify slots.0@0 += 1) hint: wait")));
  const Json found = diagnostic(file, "unreachable-threshold");
  EXPECT_EQ(found.at("where"),
            Json::parse(R"({"lane": "rank 0 comm 0", "position": 0, "line": 21})"));
  EXPECT_EQ(found.at("also").at(0).at("line"), 18);
  EXPECT_EQ(found.at("also").at(1).at("line"), 26);
}

// Of problems that differ in their numbers only three are printed.
TEST_F(PlanLines, CountsWhatIsAlike) {
  const std::string text =
      stretto_says({"plan", "gemm-rs", "512x512x512@4", "--strategy", "tiles"}).out;
  const ScratchFolder folder;
  const std::string file =
      folder.file("one.plan", std::regex_replace(text, std::regex("copies=2"), "copies=1"));
  const Said said = stretto_says({"check", file});
  EXPECT_EQ(said.exit_code, 1);
  size_t printed = 0;
  for (size_t at = 0; (at = said.out.find("overwrite-unread", at + 1)) != std::string::npos;) {
    ++printed;
  }
  EXPECT_EQ(printed, 3u) << said.out;
  EXPECT_THAT(said.out, HasSubstr(" of the same sort"));
}

TEST_F(PlanLines, OfASignalThatNobodyNotifies) {
  const std::string file = with({{10, "signals slots 2"}, {21, "  wait slots.1 >= 2"}});
  EXPECT_THAT(words({"check", file}), AllOf(HasSubstr(file + ":21: unreachable-threshold: "),
                                            HasSubstr(file + ":10: signals slots hint: some lane "
                                                             "should notify slots.1@0")));
  EXPECT_EQ(diagnostic(file, "unreachable-threshold").at("signals"),
            Json::parse(R"({"name": "slots", "line": 10})"));
}

TEST_F(PlanLines, OfBothAccessesOfARaceAndOfWhatWouldOrderThem) {
  const std::string file = with({{21, "  ; wait slots.0 >= 2"}});
  EXPECT_THAT(words({"check", file}),
              AllOf(HasSubstr(file + ":22: read-before-write: rank 0 comm 0 instruction 0 "),
                    HasSubstr(file + ":17: rank 0 compute 0 instruction 2 (gemm #0)"),
                    HasSubstr(file + ":18: rank 0 compute 0 instruction 3 (notify")));
  const Json found = diagnostic(file, "read-before-write");
  EXPECT_EQ(found.at("where").at("line"), 22);
  EXPECT_EQ(found.at("other").at("line"), 17);
  EXPECT_EQ(found.at("also").at(0).at("line"), 18);
}

TEST_F(PlanLines, OfABufferThatIsNotWhole) {
  const std::string file =
      with({{32, "  reduce #1 slots[0:60,0:64] slots[64:124,0:64] -> out[0:60,0:64]"}});
  EXPECT_THAT(words({"check", file}),
              HasSubstr(file + ":9: unwritten-output: no task writes out@1"));
  EXPECT_EQ(diagnostic(file, "unwritten-output").at("where"), nullptr);
  EXPECT_EQ(diagnostic(file, "unwritten-output").at("buffer"),
            Json::parse(R"({"name": "out", "line": 9})"));
}

TEST_F(PlanLines, OnlyTheFileWhereADeclarationIsMissing) {
  const std::string file =
      scratch_.file("p.txt",
                    "stretto-plan 2\noperator ag-gemm m=64 n=64 k=64 ranks=1 dtype=bf16\nsms 4\n"
                    "buffer a bf16 64x64 input\nend\n");
  EXPECT_THAT(words({"check", file}), HasSubstr(" " + file + ": unwritten-output: no task writes"));
}

// Of which one is the output that nobody writes.
TEST_F(PlanLines, OfTheFirstHundredProblems) {
  std::string text =
      "stretto-plan 2\noperator ag-gemm m=64 n=64 k=64 ranks=1 dtype=bf16\nsms 4\n"
      "buffer a bf16 64x64 input\nbuffer b bf16 64x64 input\nsignals s 101\nlane 0 comm 0\n";
  for (int i = 0; i <= 100; ++i) text += "  wait s." + std::to_string(i) + " >= 1\n";
  const std::string file = scratch_.file("p.txt", text + "end\n");
  EXPECT_THAT(words({"check", file}),
              AllOf(HasSubstr(file + ":10: unreachable-threshold: "),
                    HasSubstr("... and 96 of the same sort"),
                    HasSubstr("... and maybe more: the check stopped after 100")));
  const Json check = Json::parse(stretto_says({"check", file, "--json"}).out);
  const Json found = check.at("results").at(0).at("check").at("diagnostics");
  EXPECT_EQ(found.size(), 100u);
  EXPECT_EQ(found.back().at("where").at("line"), 106);
}

TEST_F(PlanLines, OfEveryLaneOfADeadlock) {
  const std::string file = with({{10, "signals slots 3 copies=2"},
                                 {15, "  wait slots.1 >= 1"},
                                 {23, "  notify slots.2@1 += 1"},
                                 {27, "  wait slots.2 >= 1"},
                                 {29, "  notify slots.1@0 += 1"}});
  EXPECT_THAT(words({"check", file}),
              AllOf(HasSubstr(file + ":15: deadlock: deadlock of 3 lanes: rank 0 compute 0, "),
                    HasSubstr(file + ":27: rank 1 compute 0 instruction 2 (wait slots.2 >= 1) "),
                    HasSubstr(file + ":21: rank 0 comm 0 instruction 0 (wait slots.0 >= 2) ")));
  const Json found = diagnostic(file, "deadlock");
  EXPECT_EQ(found.at("where").at("line"), 15);
  EXPECT_EQ(found.at("other").at("line"), 27);
  EXPECT_EQ(found.at("also").at(0).at("line"), 21);
}

TEST_F(PlanLines, OfWhatARunGotWrong) {
  std::string file = with({{14, ""}});
  EXPECT_THAT(words({"run", file}),
              AllOf(HasSubstr(file + ":31: rank 1 comm 0 waits for slots.0@1 >= 2, which stands at "
                                     "1"),
                    HasSubstr(file + ":31: the plan never ends: ")));
  const Json stuck = result({"run", file}).at("emulate").at("seeds").at(0).at("stuck");
  const auto lane = std::find_if(stuck.begin(), stuck.end(),
                                 [](const Json& one) { return one.at("lane") == "rank 1 comm 0"; });
  ASSERT_NE(lane, stuck.end());
  EXPECT_EQ(lane->at("line"), 31);
  EXPECT_EQ(lane->at("position"), 0);
  file = with({{21, ""}});
  EXPECT_THAT(words({"run", file, "--seeds", "20"}), HasSubstr(file + ":22: run "));
  const Json faults = result({"run", file, "--seeds", "20"}).at("emulate").at("seeds");
  EXPECT_TRUE(std::any_of(faults.begin(), faults.end(), [&](const Json& seed) {
    return seed.at("faults").dump().find(file + ":22: run ") != std::string::npos;
  }));
}

TEST_F(PlanLines, OfAPredictionAndOfWhatHasNone) {
  EXPECT_THAT(words({"simulate", with({{14, ""}})}), HasSubstr("p.txt:31: the plan never ends: "));
  const std::string file = with({});
  const std::string perfetto = scratch_.path("trace.json");
  EXPECT_THAT(words({"simulate", file, "--critical-path", "--perfetto", perfetto}, 0),
              AllOf(HasSubstr("comm 0 reduce tile"), HasSubstr(", line 32")));
  const Json path = result({"simulate", file}, 0).at("simulate").at("critical_path");
  EXPECT_EQ(path.at(0).at("line"), 32) << path.dump();
  EXPECT_THAT(content_of(perfetto), HasSubstr(R"("line":13})"));
}

TEST_F(PlanLines, OfNoneWhereAPredictionIsOfAPlanThatIsNotProved) {
  EXPECT_THAT(words({"simulate", with({{21, "  ; wait slots.0 >= 2"}})}, 0),
              HasSubstr("not proved: stretto check finds "));
  EXPECT_THAT(words({"simulate", with({})}, 0), testing::Not(HasSubstr("not proved")));
}

// Those of the file, though a run of fewer rows has fewer instructions.
TEST_F(PlanLines, OfARunOfFewerRows) {
  const Said said = stretto_says({"plan", "gemm-rs", "--m", "1024", "--n", "128", "--k", "256",
                                  "--ranks", "2", "--schedule", "tiles,rows=bucket,tile=64x128"});
  ASSERT_EQ(said.exit_code, 0) << said.err;
  const std::string file = scratch_.file("bucket.plan", "; by hand\n" + said.out);
  std::istringstream in(content_of(file));
  std::vector<std::string> lines{""};
  for (std::string one; std::getline(in, one);) lines.push_back(one);
  const Json all = result({"simulate", file}, 0);
  const Json few = result({"simulate", file, "--rows", "50"}, 0);
  EXPECT_LT(few.at("plan").at("instructions"), all.at("plan").at("instructions"));
  for (const Json& step : few.at("simulate").at("critical_path")) {
    const std::string head = "lane" + step.at("lane").get<std::string>().substr(4);
    size_t line = step.at("line").get<size_t>();
    ASSERT_LT(line, lines.size());
    EXPECT_THAT(lines[line], testing::StartsWith("  "));
    while (!lines[line].starts_with("lane ")) --line;
    EXPECT_THAT(lines[line], testing::StartsWith(head));
  }
}

TEST_F(PlanLines, PlansThatAreFromNoFileHaveNone) {
  const Json path =
      result(std::vector<std::string>{"simulate"} + small_operator(), 0).at("simulate");
  ASSERT_FALSE(path.at("critical_path").empty());
  EXPECT_FALSE(path.at("critical_path").at(0).contains("line"));
  EXPECT_THAT(words(std::vector<std::string>{"simulate"} + small_operator() +
                        std::vector<std::string>{"--critical-path"},
                    0),
              Not(HasSubstr(", line ")));
}

}  // namespace
}  // namespace stretto
