// What kernels record as wrong, in words.
#include "fabric/lang_report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

namespace stretto::fabric {
namespace {

using namespace device;

ExpiredWait wait_of(Wrong wrong, int from, uint64 expected, uint64 seen) {
  return {1, 3, from, wrong, 0, expected, seen, {}};
}
std::string call_text(const char* argument, uint64 own, uint64 theirs) {
  ExpiredWait what = wait_of(Wrong::kDisagrees, 1, own, theirs);
  std::memcpy(what.argument, argument, std::min(std::strlen(argument), sizeof what.argument));
  return describe_wrong(0, what, "", 0);
}

TEST(LangReport, SaysOfAWaitWhatIsThereAndWhatWasExpected) {
  EXPECT_EQ(describe_wrong(2, wait_of(Wrong::kExpired, 1, 7, 6), "byte 8 of 'signals'", 200),
            "rank 2 block 3 waited 200 ms for rank 1: byte 8 of 'signals' is 6, expected 7");
  EXPECT_EQ(describe_wrong(2, wait_of(Wrong::kExpired, -1, 7, 0), "the word at 0x10", 5),
            "rank 2 block 3 waited 5 ms: the word at 0x10 is 0, expected 7");
}

TEST(LangReport, SaysOfASentinelThatNobodyHasWrittenOverIt) {
  EXPECT_EQ(describe_wrong(2, wait_of(Wrong::kUnwritten, 1, 0, 0x80008000), "byte 4 of 'slots'", 9),
            "rank 2 block 3 waited 9 ms for rank 1: byte 4 of 'slots' has not been written, it "
            "still holds 0x80008000");
}

TEST(LangReport, NamesWhatRanksCallOtherwise) {
  const std::string begin = "rank 0 and rank 1 make the same call with different arguments: ";
  const Team all{0, 1, 4}, even{0, 2, 2};
  EXPECT_EQ(call_text("hidden", 256, 128), begin + "hidden is 256 on rank 0 and 128 on rank 1");
  EXPECT_EQ(call_text(kOtherTeam, mark_of(all, Meet::kSync), mark_of(even, Meet::kSync)),
            begin + "team is ranks 0 to 3 on rank 0 and ranks 0, 2 on rank 1");
  EXPECT_EQ(call_text(kOtherCall, mark_of(all, Meet::kFcollect), mark_of(all, Meet::kBarrier)),
            begin + "call is fcollect on rank 0 and barrier on rank 1");
}

TEST(LangReport, NamesWhatARankCallsOtherwiseThanBefore) {
  ExpiredWait what = wait_of(Wrong::kDisagrees, 2, 128, 256);
  std::memcpy(what.argument, "hidden", 6);
  EXPECT_EQ(describe_wrong(2, what, "", 5),
            "rank 2 calls with hidden = 128, but called before with 256");
}

TEST(LangReport, NamesTheTeamOfAStrangerAndOfARootThatIsNotThere) {
  const Team even{0, 2, 2};
  EXPECT_EQ(call_text(kNotOfTeam, 0, mark_of(even)),
            "rank 0 calls a collective of the team of ranks 0, 2, which it is not of");
  EXPECT_EQ(call_text(kNotOfTeam, 0, mark_of(Team{3, 100, 1})),
            "rank 0 calls a collective of the team of rank 3, which it is not of");
  EXPECT_EQ(call_text(kNoSuchRoot, uint64(-1), mark_of(even)),
            "rank 0 broadcasts from number -1 of the team of ranks 0, 2, which has 2");
}

}  // namespace
}  // namespace stretto::fabric
