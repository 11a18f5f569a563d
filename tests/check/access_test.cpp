// Regions that a task cannot touch, and ranks that disagree.
#include "check/text_plan.h"

namespace stretto {
namespace {

using testing::HasSubstr;

constexpr std::string_view kBuffers =
    "buffer x fp32 8x8 input\n"
    "buffer part fp32 8x8 local\n"
    "buffer slots fp32 8x8 symmetric\n"
    "buffer out fp32 8x8 output\n";
constexpr std::string_view kFill =
    "  copy x[0:8,0:8] -> out[0:8,0:8]\n"
    "  copy x[0:8,0:8] -> part[0:8,0:8]\n"
    "  copy x[0:8,0:8] -> slots[0:8,0:8]\n";

CheckReport check_task(std::string_view task) {
  return check_text(2, std::string(kBuffers) + "lane 0 compute 0\n" + std::string(kFill) +
                           std::string(task) + "lane 1 compute 0\n" +
                           "  copy x[0:8,0:8] -> out[0:8,0:8]\n");
}

TEST(Access, RegionsStayInsideTheirBuffers) {
  const Diagnostic d = expect_only(check_task("  copy #6 x[4:12,0:8] -> part[0:8,0:8]\n"),
                                   DiagnosticKind::out_of_bounds);
  EXPECT_EQ(d.where, (InstrRef{0, 3}));
  EXPECT_EQ(d.tile, 6);
  EXPECT_THAT(d.message, HasSubstr("touches x@0[4:12,0:8], but rank 0 has 8 x 8 of x"));
  EXPECT_EQ(d.buffer, 0);
  expect_only(check_task("  copy x[0:8,0:8] -> part[0:8,4:12]\n"), DiagnosticKind::out_of_bounds);
}

TEST(Access, DataIsPushedNeverPulled) {
  const Diagnostic d = expect_only(check_task("  copy x@1[0:8,0:8] -> part[0:8,0:8]\n"),
                                   DiagnosticKind::wrong_access);
  EXPECT_THAT(d.message, HasSubstr("reads x@1[0:8,0:8] of another rank"));
  EXPECT_EQ(d.hint, "let rank 1 push it");
}

TEST(Access, InputsBelongToTheCaller) {
  expect_only(check_task("  copy part[0:8,0:8] -> x[0:8,0:8]\n"), DiagnosticKind::wrong_access);
}

TEST(Access, PeersCannotWriteLocalMemory) {
  const Diagnostic d = expect_only(check_task("  copy x[0:8,0:8] -> part@1[0:8,0:8]\n"),
                                   DiagnosticKind::wrong_access);
  EXPECT_THAT(d.hint, HasSubstr("symmetric and output buffers only"));
  EXPECT_EQ(d.buffer, 1);
  expect_clean(check_task("  copy x[0:8,0:8] -> slots@1[0:8,0:8]\n"));
}

TEST(Access, OnlyOutputsAreDelivered) {
  expect_only(check_task("  deliver part[0:8,0:8]\n"), DiagnosticKind::wrong_access);
  expect_clean(check_task("  deliver out[0:8,0:8]\n"));
}

TEST(Access, CollectivesKeepToTheirRank) {
  expect_only(check_text(2, std::string(kBuffers) +
                                "lane 0 compute 0\n"
                                "  copy x[0:8,0:8] -> out[0:8,0:8]\n"
                                "lane 0 nccl 0\n"
                                "  collective all_reduce 0 x[0:8,0:8] -> slots@1[0:8,0:8]\n"
                                "lane 1 compute 0\n"
                                "  copy x[0:8,0:8] -> out[0:8,0:8]\n"
                                "lane 1 nccl 0\n"
                                "  collective all_reduce 0 x[0:8,0:8] -> part[0:8,0:8]\n"),
              DiagnosticKind::wrong_access);
}

CheckReport check_collectives(std::string_view on_rank_0, std::string_view on_rank_1) {
  return check_text(2,
                    "buffer x fp32 8x8 input\n"
                    "buffer y fp32 8x8 local\n"
                    "buffer big fp32 16x8 local\n"
                    "lane 0 nccl 0\n" +
                        std::string(on_rank_0) + "lane 1 nccl 0\n" + std::string(on_rank_1));
}

TEST(Agreement, AllRanksRunTheSameCollectivesInTheSameOrder) {
  const std::string_view first = "  collective all_reduce 0 x[0:8,0:8] -> y[0:8,0:8]\n";
  const std::string_view second =
      "  collective all_gather 1 x[0:8,0:8] -> big[0:8,0:8] big[8:16,0:8]\n";
  const std::string both = std::string(first) + std::string(second);
  const std::string swapped = std::string(second) + std::string(first);
  expect_clean(check_collectives(both, both));
  const Diagnostic d =
      expect_only(check_collectives(both, swapped), DiagnosticKind::mismatched_collective);
  EXPECT_EQ(d.where, (InstrRef{1, 0}));
  EXPECT_EQ(d.other, (InstrRef{0, 0}));
  EXPECT_THAT(d.message,
              HasSubstr("rank 1 has rank 1 nccl 0 instruction 0 (all_gather 1) as collective "
                        "number 0, rank 0 has rank 0 nccl 0 instruction 0 (all_reduce 0)"));
  expect_only(check_collectives(both, first), DiagnosticKind::mismatched_collective);
  expect_only(check_collectives(first, both), DiagnosticKind::mismatched_collective);
}

TEST(Agreement, AllRanksJoinACollectiveInTeamsOfTheSameSize) {
  const std::string_view all = "  collective all_reduce 0 x[0:8,0:8] -> y[0:8,0:8]\n";
  const std::string_view alone = "  collective all_reduce 0 team=1 x[0:8,0:8] -> y[0:8,0:8]\n";
  expect_clean(check_collectives(alone, alone));
  expect_only(check_collectives(alone, all), DiagnosticKind::mismatched_collective);
}

// What one team gathers has nothing to do with what another one does.
TEST(Agreement, ShapesPairWithinATeam) {
  const auto gather = [](int rank, std::string_view first, std::string_view second) {
    return fmt::format(
        "lane {0} nccl 0\n  collective all_gather 0 team=2 x[{1},0:8] -> big[{2},0:8] "
        "big[{3},0:8]\n",
        rank, rank % 2 == 0 ? first : second, first, second == "0:2" ? "8:10" : "8:16");
  };
  const auto check_all = [&](std::string_view of_rank_3) {
    return check_text(4, "buffer x fp32 8x8 input\nbuffer big fp32 16x8 local\n" +
                             gather(0, "0:8", "0:8") + gather(1, "0:8", "0:8") +
                             gather(2, "0:4", "0:2") + gather(3, "0:4", of_rank_3));
  };
  expect_clean(check_all("0:2"));
  expect_only(check_all("0:8"), DiagnosticKind::mismatched_collective);
}

// The residual, the weights and the norm are the rank's own: only terms and sums meet.
TEST(Agreement, WhatIsNormedHasOneShapeOnAllRanks) {
  const auto check_norms = [](std::string_view first, std::string_view second) {
    const Plan plan = text_plan(2,
                                "buffer x bf16 8x8 input\n"
                                "buffer r bf16 8x8 input\n"
                                "buffer w bf16 1x8 input\n"
                                "buffer s bf16 8x8 local\n"
                                "buffer y bf16 8x8 local\n"
                                "lane 0 nccl 0\n" +
                                    std::string(first) + "lane 1 nccl 0\n" + std::string(second),
                                4, "collectives low-latency\n");
    return check(plan, kFragment);
  };
  constexpr std::string_view kAll =
      "  collective all_reduce_norm 0 eps=1e-06 x[0:8,0:8] r[0:8,0:8] w[0:1,0:8] -> s[0:8,0:8] "
      "y[0:8,0:8]\n";
  constexpr std::string_view kFew =
      "  collective all_reduce_norm 0 eps=1e-06 x[0:4,0:8] r[0:4,0:8] w[0:1,0:8] -> s[0:4,0:8] "
      "y[0:4,0:8]\n";
  expect_clean(check_norms(kAll, kAll));
  expect_only(check_norms(kAll, kFew), DiagnosticKind::mismatched_collective);
  std::string other(kAll);
  other.replace(other.find("1e-06"), 5, "1e-05");
  const Diagnostic d = expect_only(check_norms(kAll, other), DiagnosticKind::mismatched_collective);
  EXPECT_EQ(d.where, (InstrRef{1, 0}));
}

// Region j for a rank meets what that rank writes of this one's.
TEST(Agreement, AnAllToAllMeetsByDestinationAndSource) {
  const std::string_view even =
      "  collective all_to_all 0 x[0:4,0:8] x[4:8,0:8] -> big[0:4,0:8] big[8:12,0:8]\n";
  expect_clean(check_collectives(even, even));
  // 6 rows stay on rank 0 and 2 go to rank 1, which keeps 3 and sends 1.
  const std::string_view first =
      "  collective all_to_all 0 x[0:6,0:8] x[6:8,0:8] -> big[0:6,0:8] big[6:7,0:8]\n";
  const std::string_view second =
      "  collective all_to_all 0 x[0:1,0:8] x[1:4,0:8] -> big[0:2,0:8] big[2:5,0:8]\n";
  expect_clean(check_collectives(first, second));
  expect_only(check_collectives(first, even), DiagnosticKind::mismatched_collective);
}

TEST(Agreement, ACollectiveIsRunOnceUnderItsNumber) {
  const std::string twice =
      "  collective all_reduce 0 x[0:8,0:8] -> y[0:8,0:8]\n"
      "  collective all_reduce 0 x[0:8,0:8] -> y[0:8,0:8]\n";
  expect_only(check_collectives(twice, twice), DiagnosticKind::mismatched_collective);
}

TEST(Agreement, RegionsThatMeetHaveOneShape) {
  const Diagnostic d =
      expect_only(check_collectives("  collective all_reduce 0 x[0:8,0:8] -> y[0:8,0:8]\n",
                                    "  collective all_reduce 0 x[0:4,0:8] -> y[0:4,0:8]\n"),
                  DiagnosticKind::mismatched_collective);
  EXPECT_THAT(d.hint, HasSubstr("one shape"));
  expect_only(check_collectives(
                  "  collective all_reduce 0 x[0:8,0:8] -> y[0:8,0:8]\n",
                  "  collective all_reduce 0 x[0:4,0:8] x[4:8,0:8] -> y[0:4,0:8] y[4:8,0:8]\n"),
              DiagnosticKind::mismatched_collective);
  // Shards of different sizes are fine as long as everybody says the same.
  expect_clean(
      check_collectives("  collective all_gather 0 x[0:8,0:8] -> big[0:8,0:8] big[8:12,0:8]\n",
                        "  collective all_gather 0 x[0:4,0:8] -> big[0:8,0:8] big[8:12,0:8]\n"));
  expect_only(
      check_collectives("  collective all_gather 0 x[0:8,0:8] -> big[0:8,0:8] big[8:16,0:8]\n",
                        "  collective all_gather 0 x[0:4,0:8] -> big[0:8,0:8] big[8:12,0:8]\n"),
      DiagnosticKind::mismatched_collective);
  expect_clean(
      check_collectives("  collective reduce_scatter 0 x[0:6,0:8] x[6:8,0:8] -> y[0:6,0:8]\n",
                        "  collective reduce_scatter 0 x[0:6,0:8] x[6:8,0:8] -> y[0:2,0:8]\n"));
}

TEST(Agreement, ComputeLanesOfARankPassTheSameBoundaries) {
  const Diagnostic d = expect_only(check_text(1,
                                              "lane 0 compute 0\n"
                                              "  boundary 0\n"
                                              "  boundary 1\n"
                                              "lane 0 compute 1\n"
                                              "  boundary 0\n"),
                                   DiagnosticKind::mismatched_collective);
  EXPECT_THAT(d.message, HasSubstr("rank 0 compute 1 has nothing as boundary number 1, rank 0 "
                                   "compute 0 has boundary 1"));
  expect_only(check_text(1,
                         "lane 0 compute 0\n"
                         "  boundary 0\n"
                         "lane 0 compute 1\n"
                         "  boundary 1\n"),
              DiagnosticKind::mismatched_collective);
  expect_clean(check_text(2,
                          "lane 0 compute 0\n"
                          "  boundary 0\n"
                          "lane 1 compute 0\n"));
}

}  // namespace
}  // namespace stretto
