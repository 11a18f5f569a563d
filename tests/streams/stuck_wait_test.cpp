// Which wait held up the task that an error names, and where it stands in the plan's text.
#include "streams/stuck_wait.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <utility>

#include "stretto/device/signal.h"

namespace stretto::runtime {
namespace {

// Of one rank that computes `m` rows; `body`: what else the plan declares, and its lanes.
Plan plan_of_rows(int m, const std::string& body) {
  return parse_plan(fmt::format(R"(stretto-plan 1
operator ag-gemm m={0} n=64 k=128 ranks=1 dtype=bf16
sms 132
buffer a bf16 {0}x128 input
buffer b bf16 64x128 input
buffer out bf16 {0}x64 output
{1}end
)",
                                m, body));
}

TEST(StuckWait, TheWaitOfALaterPhaseIsFoundBehindTheTasksFirstRange) {
  const Plan plan = plan_of_rows(128, R"(buffer ranges fp32 256x64 local
signals ag 3
lane 0 compute 0
  wait ag.2 >= 1
  wait ag.0 >= 1
  gemm #4 a[0:128,0:64] b[0:64,0:64] -> ranges[0:128,0:64]
  wait ag.1 >= 1
  gemm #4 a[0:128,64:128] b[0:64,64:128] -> ranges[128:256,0:64]
  reduce #4 ranges[0:128,0:64] ranges[128:256,0:64] -> out[0:128,0:64]
  wait ag.2 >= 2
  gemm #5 a[0:128,0:128] b[0:64,0:128] -> out[0:128,0:64]
)");
  const Lane& lane = plan.lanes[0];
  EXPECT_EQ(find_wait(lane, 0, 8, {0, 0}, 4), 1u);
  EXPECT_EQ(find_wait(lane, 0, 8, {0, 1}, 4), 3u);
  EXPECT_EQ(find_wait(lane, 0, 8, {0, 2}, 4), 0u);
  EXPECT_EQ(find_wait(lane, 0, 8, {0, 2}, 5), 6u);
  EXPECT_EQ(find_wait(lane, 4, 6, {0, 1}, 4), std::nullopt);
  EXPECT_EQ(describe(plan, {0, 0, 3, 1, 0, true}, 2'000'000'000),
            "rank 0 compute 0 waited 2000 ms before tile 4 for ag.1: expected 1, seen 0");
}

// A block makes waits of other lanes at its end; what it reports then is theirs.
TEST(StuckWait, TheWaitAtTheEndOfABlockIsOfTheLaneThatHasIt) {
  const Plan plan = plan_of_rows(256, R"(signals ag 2
lane 0 compute 0
  gemm #0 a[0:128,0:128] b[0:64,0:128] -> out[0:128,0:64]
  wait ag.0 >= 1
  wait ag.1 >= 1
lane 0 compute 1
  wait ag.0 >= 1
  gemm #1 a[128:256,0:128] b[0:64,0:128] -> out[128:256,0:64]
  wait ag.1 >= 1
)");
  const cuda::BlockPart part{1, 0, 2, {{cuda::StepKind::wait, 0, 0, 1}}};
  const auto found = [&](int32_t signal, uint32_t tile) {
    const WaitPlace place = find_wait(plan, part, {0, signal}, tile);
    return std::pair(place.lane, place.position);
  };
  EXPECT_EQ(found(0, 1), std::pair(1u, 0u));
  EXPECT_EQ(found(0, device::kAtEnd), std::pair(0u, 1u));
  EXPECT_EQ(describe(plan, {0, 0, 1, 1, 0, true}, 2'000'000'000),
            "rank 0 compute 0 waited 2000 ms at its end for ag.0: expected 1, seen 0");
}

// Two ranks. Lines that the tests name: 8 and 11 are waits of rank 0's blocks, 15 and 17 those of
// its stream, 20 is that of rank 1.
constexpr const char* kTwoRanks = R"(stretto-plan 1
operator gemm-ar m=128 n=64 k=128 ranks=2 dtype=bf16
sms 132
buffer out bf16 128x64 output
buffer sums bf16 128x64 local
signals ready 3
lane 0 comm 0
  wait ready.0 >= 2
  reduce #3 sums[0:64,0:64] -> out[0:64,0:64]
lane 0 comm 1
  wait ready.1 >= 1
  reduce #4 sums[64:128,0:64] -> out[64:128,0:64]
  notify ready.0@1 += 1
lane 0 copy 0
  wait ready.1 >= 1
  copy sums[0:64,0:64] -> out@1[0:64,0:64]
  wait ready.2 >= 4 lag 1
  copy sums[64:128,0:64] -> out@1[64:128,0:64]
lane 1 comm 0
  wait ready.0 >= 1
  reduce #3 sums[0:64,0:64] -> out[0:64,0:64]
  notify ready.0@0 += 2
end
)";

// What holds up a team's collective holds up that team.
TEST(StuckWait, ATeamsCollectiveHoldsUpItsRanksOnly) {
  std::string text =
      "stretto-plan 1\noperator gemm-ar m=128 n=64 k=128 ranks=4 dtype=bf16\nsms 132\n"
      "buffer out bf16 128x64 output\nbuffer sums bf16 128x64 local\nsignals ready 2\n";
  for (int rank = 0; rank < 4; ++rank) {
    text += fmt::format(
        "lane {} copy 0\n  wait ready.0 >= 1\n  copy sums[0:128,0:64] -> out[0:128,0:64]\n"
        "lane {} nccl 0\n{}  collective all_reduce 0 team=2 sums[0:128,0:64] -> sums[0:128,0:64]\n"
        "  notify ready.0@{} += 1\n",
        rank, rank, rank == 1 ? "  wait ready.1 >= 1\n" : "", rank);
  }
  const Plan plan = parse_plan(text + "end\n");
  // Rank 1's collective waits for a signal, and the copies of ranks 0 to 3 for their own.
  const StuckWait cause{1, 3, 0, 1, 0, true, true};
  const auto said = [&](uint32_t lane, int rank) {
    return std::string(fault_of(plan, {{rank, lane, 0, 1, 0, true}, cause}, 1'000'000'000).what());
  };
  for (const auto& [lane, rank] : {std::pair{0u, 0}, {2u, 1}}) {
    EXPECT_NE(said(lane, rank).find("rank 1 nccl 0"), std::string::npos) << said(lane, rank);
  }
  EXPECT_NE(said(4, 2).find("rank 2 copy 0"), std::string::npos) << said(4, 2);
}

class FaultOfAKernel : public testing::Test {
 protected:
  // What is said of what a kernel of rank 0 reported, behind the line of the wait.
  std::string said(const KernelPlace& place, const device::WaitError& error) const {
    const SignalRef signal{0, static_cast<int32_t>(error.signal)};
    return said({locate(plan_, 0, place, signal, error)});
  }
  std::string said(const std::vector<StuckWait>& stuck) const {
    const RunFault fault = fault_of(plan_, stuck, 300'000'000);
    const std::string line = fault.where() ? fmt::format("{}: ", lines_.of(*fault.where())) : "";
    return line + fault.what();
  }

  PlanLines lines_;
  const Plan plan_ = parse_plan(kTwoRanks, "p.txt", &lines_);
  const std::vector<cuda::BlockPart> blocks_ = {{0, 0, 2}, {1, 0, 3}};
};

// A run later than the first: counters have grown, and what is said counts as the plan does.
TEST_F(FaultOfAKernel, HasTheLineOfABlocksWait) {
  EXPECT_EQ(said({&blocks_}, {0, 3, 0, 0, 12, 11}),
            "8: rank 0 comm 0 waited 300 ms before tile 3 for ready.0: expected 2, seen 1");
  EXPECT_EQ(said({&blocks_}, {1 | device::kMoverLane, 4, 1, 0, 6, 5}),
            "11: rank 0 comm 1 waited 300 ms before tile 4 for ready.1: expected 1, seen 0");
}

TEST_F(FaultOfAKernel, HasTheLineOfAStreamsWait) {
  const KernelPlace stream{nullptr,
                           {{cuda::StepKind::wait, 0, 2, 0}, {cuda::StepKind::wait, 0, 2, 2}}};
  EXPECT_EQ(said(stream, {0, 0, 1, 0, 1, 0}),
            "15: rank 0 copy 0 waited 300 ms before copy 0 for ready.1: expected 1, seen 0");
  EXPECT_EQ(said(stream, {0, 0, 2, 0, 4, 3}),
            "17: rank 0 copy 0 waited 300 ms before copy 0 for ready.2: expected 4, seen 3");
}

// Rank 0's wait on line 8 is for what rank 1 notifies behind its own, on line 20, which is for what
// rank 0 notifies; line 15 is of neither.
TEST_F(FaultOfAKernel, IsThatOfTheCauseWhichWasLetGo) {
  const StuckWait follows{0, 0, 0, 2, 0, true}, unrelated{0, 2, 0, 1, 0, true};
  const StuckWait cause{1, 3, 0, 1, 0, true, true};
  EXPECT_EQ(said({follows}).substr(0, 2), "8:");
  EXPECT_EQ(said({follows, cause}).substr(0, 3), "20:");
  EXPECT_EQ(said({cause, follows}).substr(0, 3), "20:");
  // Where both may be causes it is the one whose deadline has passed.
  EXPECT_EQ(said({cause, unrelated}).substr(0, 3), "15:");
}

TEST_F(FaultOfAKernel, StoodStillAtTheFirstWaitOfEachLaneInTheFirstRun) {
  const cuda::Step first{cuda::StepKind::wait, 0, 2, 0}, second{cuda::StepKind::wait, 0, 2, 2};
  const cuda::Step other{cuda::StepKind::wait, 0, 1, 0};
  const StuckWait at_first{0, 2, 0, 1, 0, true, true}, at_second{0, 2, 2, 4, 1, true, true};
  const StuckWait at_other{0, 1, 0, 1, 0, true, true};
  const auto found = [&](const std::vector<LeftWait>& waits) {
    return stood_still(plan_, 0, waits);
  };
  using Waits = std::vector<StuckWait>;
  EXPECT_EQ(found({}), Waits());
  EXPECT_EQ(found({{first, {0, 0}}, {second, {0, 7}}}), Waits());
  EXPECT_EQ(found({{first, {0, 0}}, {second, {3, 7}}}), Waits{at_second});
  EXPECT_EQ(found({{second, {3, 7}}, {first, {1, 7}}}), Waits{at_first});
  EXPECT_EQ(found({{first, {1, 8}}, {second, {3, 7}}}), Waits{at_second}) << "it came to run 8";
  EXPECT_EQ(found({{first, {1, 7}}, {other, {1, 7}}}), (Waits{at_other, at_first}));
}

TEST(LetGoWaits, AreAddedOnceAndSayNothingAlone) {
  const StuckWait expired{0, 2, 0, 1, 0, true}, same{0, 2, 0, 1, 0, true, true};
  const StuckWait other{1, 3, 0, 1, 0, true, true};
  std::vector<StuckWait> stuck{expired};
  add_let_go(stuck, {same, other});
  EXPECT_EQ(stuck, (std::vector<StuckWait>{expired, other}));
  drop_let_go_alone(stuck);
  EXPECT_EQ(stuck.size(), 2u);
  stuck = {other};
  drop_let_go_alone(stuck);
  EXPECT_TRUE(stuck.empty());
}

TEST_F(FaultOfAKernel, HasNoLineWhereTheWaitIsNotKnown) {
  constexpr const char* kUnknown = "rank 0 waited 300 ms for a signal that did not come";
  EXPECT_EQ(said({&blocks_}, {2, 3, 0, 0, 1, 0}), kUnknown);     // no such block
  EXPECT_EQ(said({nullptr, {}}, {0, 0, 0, 0, 1, 0}), kUnknown);  // no such wait
}

// Rank 1's wait holds up the notify that rank 0 awaits.
TEST_F(FaultOfAKernel, HasTheLineOfTheWaitThatExplainsTheOthers) {
  const StuckWait of_rank_0{0, 0, 0, 2, 0, true}, of_rank_1{1, 3, 0, 1, 0, true};
  constexpr const char* kRoot =
      "20: rank 1 comm 0 waited 300 ms before tile 3 for ready.0: expected 1, seen 0";
  EXPECT_EQ(said({of_rank_0, of_rank_1}), kRoot);
  EXPECT_EQ(said({of_rank_1, of_rank_0}), kRoot);
}

}  // namespace
}  // namespace stretto::runtime
