// stretto plan FILE --derive: tasks alone become a plan, or what leaves their order open is said
// with its line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cli/command.h"

namespace stretto {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kRing = STRETTO_TEST_DIR "/../../examples/ring.plan";

class Derive : public testing::Test {
 protected:
  // What is said of the ring with a line in the place of another; exit code 2.
  std::string refusal(const std::string& line, const std::string& instead) {
    std::string text = content_of(kRing);
    const size_t at = text.find(line);
    EXPECT_NE(at, std::string::npos) << line;
    const Said said = stretto_says(
        {"plan", scratch_.file("mine.plan", text.replace(at, line.size(), instead)), "--derive"});
    EXPECT_EQ(said.exit_code, 2) << said.out;
    EXPECT_EQ(said.out, "");
    EXPECT_THAT(said.err, HasSubstr("mine.plan:"));
    return said.err;
  }

  ScratchFolder scratch_;
};

TEST_F(Derive, AddsWhatTasksNeed) {
  const std::string ready = scratch_.path("ready.plan");
  const Said alone = stretto_says({"check", kRing});
  EXPECT_EQ(alone.exit_code, 1) << alone.out;
  const Said said = stretto_says({"plan", kRing, "--derive", "-o", ready});
  ASSERT_EQ(said.exit_code, 0) << said.err;
  EXPECT_THAT(content_of(ready), HasSubstr("  wait "));
  for (const char* verb : {"check", "run", "simulate"}) {
    const Said of_it = stretto_says({verb, ready});
    EXPECT_EQ(of_it.exit_code, 0) << verb << of_it.out << of_it.err;
    EXPECT_THAT(of_it.out, Not(HasSubstr("not proved"))) << verb;
  }
}

TEST_F(Derive, SaysWhichLineLeavesTheOrderOpen) {
  // Rank 0's first product goes where rank 2's does.
  EXPECT_THAT(refusal("-> ring@1[0:64,0:64]\n  gemm #1", "-> ring@0[0:64,0:64]\n  gemm #1"),
              testing::AllOf(HasSubstr("ring@0"), testing::ContainsRegex("mine.plan:[0-9]+: ")));
}

TEST_F(Derive, RefusesWhatHasSignalsAlready) {
  EXPECT_THAT(refusal("buffer out bf16 64x64 output sharded=192\n",
                      "buffer out bf16 64x64 output sharded=192\nsignals s 1\n"),
              HasSubstr("signals"));
}

TEST_F(Derive, IsForOneFileOfTasks) {
  const Said lowered =
      stretto_says(std::vector<std::string>{"plan", "--derive"} + small_operator());
  EXPECT_EQ(lowered.exit_code, 2);
  EXPECT_THAT(lowered.err, HasSubstr("--derive is for a plan file"));
  const Said two =
      stretto_says({"plan", kRing, scratch_.file("b.plan", content_of(kRing)), "--derive"});
  EXPECT_EQ(two.exit_code, 2);
  EXPECT_THAT(two.err, HasSubstr("name one file"));
}

}  // namespace
}  // namespace stretto
