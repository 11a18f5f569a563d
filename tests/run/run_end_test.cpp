// What processes tell each other of their runs' ends, and who did not come by it.
#include "run/run_end.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stretto::runtime {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr uint64_t kTimeoutNs = 300'000'000;
constexpr RankStand waits(uint64_t begun) { return {begun, 0}; }
constexpr RankStand ended(uint64_t begun) { return {begun, 1}; }

TEST(RunEnd, ArrivesAsItWasSent) {
  RunEnd end;
  end.failure = "rank 3 does not come";
  end.nccl_is_gone = true;
  end.stands = {waits(7), ended(uint64_t{1} << 40)};
  end.stands[1].given = ~uint64_t{5};
  const auto got = run_end_from(to_bytes(end), 2);
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->failure, end.failure);
  EXPECT_FALSE(got->released_nccl);
  EXPECT_TRUE(got->nccl_is_gone);
  ASSERT_EQ(got->stands.size(), 2u);
  EXPECT_EQ(got->stands[0].begun, 7u);
  EXPECT_EQ(got->stands[0].ended, 0);
  EXPECT_EQ(got->stands[1].begun, uint64_t{1} << 40);
  EXPECT_EQ(got->stands[1].ended, 1);
  EXPECT_EQ(got->stands[0].given, 0u);
  EXPECT_EQ(got->stands[1].given, ~uint64_t{5});
}

TEST(RunEnd, WhoGaveOtherPlacesIsNamed) {
  EXPECT_EQ(describe_given({ended(1), waits(7)}), "");
  EXPECT_THAT(describe_given({{1, 1, 4}, {1, 1, 4}, {1, 1, 5}}),
              testing::StartsWith("rank 2 gave results other places"));
}

TEST(RunEnd, OfFewerRanksIsRefused) {
  RunEnd end;
  end.stands = {ended(0)};
  EXPECT_FALSE(run_end_from(to_bytes(end), 2).has_value());
  EXPECT_FALSE(run_end_from("", 0).has_value());
}

TEST(AbsentRanks, AreThoseThatHaveEndedWhileOthersWait) {
  // However far they came: another had more runs than they.
  EXPECT_THAT(absent_ranks({waits(1), ended(0), waits(1), ended(1)}), ElementsAre(1, 3));
}

TEST(AbsentRanks, AreElseThoseBehindTheOthers) {
  EXPECT_THAT(absent_ranks({waits(4), waits(4), waits(3)}), ElementsAre(2));
}

TEST(AbsentRanks, AreNotGuessed) {
  EXPECT_THAT(absent_ranks({waits(4), waits(4)}), IsEmpty());
  EXPECT_THAT(absent_ranks({ended(4), ended(4)}), IsEmpty());
}

TEST(AbsentRanks, AreNamedWithThoseThatWaited) {
  EXPECT_EQ(describe_absent({waits(1), ended(0)}, kTimeoutNs),
            "rank 0 waited 300 ms in a collective of NCCL, to which rank 1 did not come");
  EXPECT_EQ(describe_absent({waits(2), waits(1), waits(2), waits(1)}, kTimeoutNs),
            "ranks 0, 2 waited 300 ms in a collective of NCCL, to which ranks 1, 3 did not come");
  EXPECT_EQ(describe_absent({waits(2), waits(2)}, kTimeoutNs),
            "ranks 0, 1 waited 300 ms in a collective of NCCL, which did not end; none is seen to "
            "be behind the others");
}

}  // namespace
}  // namespace stretto::runtime
