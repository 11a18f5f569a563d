// Lanes that cannot be resident together.
#include "check/text_plan.h"

namespace stretto {
namespace {

using testing::HasSubstr;

// `consumers` blocks wait for one producer block of the same rank.
std::string crowd(int consumers, bool producer_first) {
  std::string body =
      "buffer x fp32 8x8 input\nbuffer part fp32 8x8 local\nbuffer out fp32 8x8 output\n"
      "signals s 1\n";
  const std::string producer = "  copy x[0:8,0:8] -> part[0:8,0:8]\n  notify s.0@0 += 1\n";
  if (producer_first) body += "lane 0 compute 0\n" + producer;
  for (int i = 0; i < consumers; ++i) {
    const std::string rows = std::to_string(i) + ":" + std::to_string(i + 1);
    body += "lane 0 compute " + std::to_string(i + 1) + "\n  wait s.0 >= 1\n  copy part[" + rows +
            ",0:8] -> out[" + rows + ",0:8]\n";
  }
  return body;
}

TEST(Residency, BlocksThatWaitForBlocksMustFit) {
  expect_clean(check_text(1, crowd(8, true), 9));
  const Diagnostic d = expect_only(check_text(1, crowd(8, true), 8), DiagnosticKind::not_resident);
  EXPECT_EQ(d.where, (InstrRef{1, 0}));
  EXPECT_THAT(d.message, HasSubstr("rank 0 has 9 block lanes for 8 SMs"));
  EXPECT_THAT(d.hint, HasSubstr("at most 8 compute and comm lanes"));
}

TEST(Residency, BlocksThatNeverWaitForBlocksMayBeMoreThanSms) {
  std::string body = crowd(8, false);
  body +=
      "lane 0 copy 0\n"
      "  copy x[0:8,0:8] -> part[0:8,0:8]\n"
      "  notify s.0@0 += 1\n";
  expect_clean(check_text(1, body, 2));
}

TEST(Residency, ItIsFineAsLongAsOneSmCannotBeBlocked) {
  std::string body =
      "buffer x fp32 8x8 input\nbuffer part fp32 8x8 local\nbuffer out fp32 8x8 output\n"
      "signals s 1\n";
  for (int i = 0; i < 8; ++i) {
    const std::string rows = std::to_string(i) + ":" + std::to_string(i + 1);
    body += "lane 0 compute " + std::to_string(i) + "\n  copy x[" + rows + ",0:8] -> part[" + rows +
            ",0:8]\n  notify s.0@0 += 1\n";
  }
  body += "lane 0 comm 0\n  wait s.0 >= 8\n  copy part[0:8,0:8] -> out[0:8,0:8]\n";
  expect_clean(check_text(1, body, 2));
  expect_only(check_text(1, body, 1), DiagnosticKind::not_resident);
}

// A gather on every rank: `blocks` tiles that each wait for what the peer's copy engine pushes.
std::string gather(int blocks, const std::string& before_gemm) {
  std::string body =
      "buffer a bf16 64x64 input\nbuffer b bf16 64x64 input\nbuffer whole bf16 64x64 symmetric\n"
      "buffer out bf16 64x64 output\nsignals full 1\nsignals done 1\n";
  for (int rank = 0; rank < 2; ++rank) {
    for (int i = 0; i < blocks; ++i) {
      const std::string rows = std::to_string(8 * i) + ":" + std::to_string(8 * i + 8);
      body += "lane " + std::to_string(rank) + " compute " + std::to_string(i) + "\n" +
              before_gemm + "  gemm whole[" + rows + ",0:64] b[0:64,0:64] -> out[" + rows +
              ",0:64]\n  notify done.0@" + std::to_string(1 - rank) + " += 1\n";
    }
    const std::string peer = std::to_string(1 - rank);
    const std::string rows = "0:" + std::to_string(8 * blocks);
    body += "lane " + std::to_string(rank) + " copy 0\n  wait done.0 >= " + std::to_string(blocks) +
            " lag 1\n  copy a[" + rows + ",0:64] -> whole@" + peer + "[" + rows +
            ",0:64]\n  notify full.0@" + peer + " += 1\n";
  }
  return body;
}

std::vector<Diagnostic> not_resident(const CheckReport& report) {
  std::vector<Diagnostic> found;
  for (const Diagnostic& d : report.diagnostics) {
    if (d.kind == DiagnosticKind::not_resident) found.push_back(d);
  }
  return found;
}

TEST(Residency, SignalsOfCopyEnginesNeedAnSmBesideTilesThatWaitForThem) {
  const std::string held = gather(4, "  wait full.0 >= 1\n");
  EXPECT_TRUE(not_resident(check_text(2, held, 5)).empty());
  // Each rank waits for the other's copy engine, which finds no SM there to signal with.
  const auto found = not_resident(check_text(2, held, 4));
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].where, (InstrRef{0, 0}));
  EXPECT_EQ(found[0].signal, "full.0@0");
  EXPECT_EQ(found[0].message,
            "rank 0 has 4 block lanes for 4 SMs, and enough of them to hold every SM wait for "
            "signals of copy or nccl lanes, which need an SM too, the first at rank 0 compute 0 "
            "instruction 0 (wait full.0 >= 1)");
  EXPECT_EQ(found[0].hint, "use at most 3 compute and comm lanes on a rank");
  EXPECT_EQ(found[1].signal, "full.0@1");
}

TEST(Residency, AKernelBoundaryBehindTheWaitsFreesTheSms) {
  EXPECT_TRUE(
      not_resident(check_text(2, gather(4, "  wait full.0 >= 1\n  boundary 0\n"), 4)).empty());
  // In front of them it does not.
  EXPECT_EQ(not_resident(check_text(2, gather(4, "  boundary 0\n  wait full.0 >= 1\n"), 4)).size(),
            2u);
}

TEST(Residency, KernelsBeforeTheOneThatWaitsAreOver) {
  // Tile by tile a sum of two blocks, behind a kernel that ended with waits for the copy engines.
  std::string body = gather(2, "  wait full.0 >= 1\n  boundary 0\n");
  for (const char* rank : {"0", "1"}) {
    const std::string signal = std::string("sum.0@") + rank + " += 1\n";
    const auto lane_at = [&](const char* index) {
      const size_t at = body.find(std::string("lane ") + rank + " compute " + index);
      return body.find("  notify done.0", at);
    };
    body.insert(lane_at("0"), "  notify " + signal);
    body.insert(lane_at("1"), "  wait sum.0 >= 1\n");
  }
  body = "signals sum 1\n" + body;
  EXPECT_TRUE(not_resident(check_text(2, body, 2)).empty());
  EXPECT_EQ(not_resident(check_text(2, body, 1)).size(), 2u);
}

TEST(Residency, OneTileThatDoesNotWaitLetsSignalsPass) {
  std::string body = gather(4, "  wait full.0 >= 1\n");
  const size_t wait = body.find("  wait full.0 >= 1\n");
  body.erase(wait, std::string("  wait full.0 >= 1\n").size());
  // Rank 0 comes to signal; so rank 1's tiles end, and rank 1 comes to signal.
  EXPECT_TRUE(not_resident(check_text(2, body, 4)).empty());
}

TEST(Residency, SignalsOfCopyEnginesFitBesideMovers) {
  std::string body =
      "buffer x fp32 8x8 input\nbuffer part fp32 8x8 local\nbuffer out fp32 8x8 output\n"
      "signals s 1\n";
  for (const char* rows : {"0:4", "4:8"}) {
    body += std::string("lane 0 comm ") + (rows[0] == '0' ? "0" : "1") +
            "\n  wait s.0 >= 1\n  copy part[" + rows + ",0:8] -> out[" + rows + ",0:8]\n";
  }
  body += "lane 0 copy 0\n  copy x[0:8,0:8] -> part[0:8,0:8]\n  notify s.0@0 += 1\n";
  expect_clean(check_text(1, body, 2));
}

TEST(Residency, CollectivesFitBesideNoBlock) {
  std::string body =
      "buffer x fp32 8x8 input\nbuffer part fp32 8x8 local\nbuffer out fp32 8x8 output\n"
      "signals s 1\n";
  for (const char* rank : {"0", "1"}) {
    body += std::string("lane ") + rank +
            " comm 0\n  wait s.0 >= 1\n  copy part[0:8,0:8] -> out[0:8,0:8]\nlane " + rank +
            " nccl 0\n  collective all_reduce 0 x[0:8,0:8] -> part[0:8,0:8]\n  notify s.0@" + rank +
            " += 1\n";
  }
  expect_clean(check_text(2, body, 2));
  const auto found = not_resident(check_text(2, body, 1));
  ASSERT_EQ(found.size(), 2u);
  EXPECT_THAT(found[0].message, HasSubstr("wait for collectives, which need an SM too"));
}

TEST(Residency, CollectivesAwaitedBeforeAKernelHaveStarted) {
  const auto kernels = [](const std::string& behind_the_wait) {
    std::string body =
        "buffer x fp32 8x8 input\nbuffer part fp32 8x8 local\nbuffer got fp32 8x8 symmetric\n"
        "buffer out fp32 8x8 output\nsignals s 1\nsignals t 1\n";
    for (int rank = 0; rank < 2; ++rank) {
      const std::string own = std::to_string(rank), peer = std::to_string(1 - rank);
      body += "lane " + own + " compute 0\n  wait s.0 >= 1\n" + behind_the_wait +
              "  copy part[0:8,0:8] -> got@" + peer + "[0:8,0:8]\n  notify t.0@" + peer +
              " += 1\n  wait t.0 >= 1\n  copy got[0:8,0:8] -> out[0:8,0:8]\nlane " + own +
              " nccl 0\n  collective all_reduce 0 x[0:8,0:8] -> part[0:8,0:8]\n  notify s.0@" +
              own + " += 1\n";
    }
    return body;
  };
  // A rank's kernel waits for the other rank, which waits for a collective; but that had begun on
  // both when it ended on one.
  EXPECT_TRUE(not_resident(check_text(2, kernels("  boundary 0\n"), 1)).empty());
  EXPECT_EQ(not_resident(check_text(2, kernels(""), 1)).size(), 2u);
}

TEST(Residency, ANotifyBehindABoundaryNeedsAnSm) {
  const std::string body =
      "buffer x fp32 8x8 input\nbuffer part fp32 8x8 local\nbuffer out fp32 8x8 output\n"
      "signals s 1\n"
      "lane 0 compute 0\n  boundary 0\n  wait s.0 >= 1\n  copy part[0:8,0:8] -> out[0:8,0:8]\n"
      "lane 0 compute 1\n  copy x[0:8,0:8] -> part[0:8,0:8]\n  boundary 0\n"
      "  notify s.0@0 += 1\n";
  EXPECT_TRUE(not_resident(check_text(1, body, 2)).empty());
  EXPECT_EQ(not_resident(check_text(1, body, 1)).size(), 1u);
}

TEST(Residency, RanksMayHoldUpEachOther) {
  // On each rank the producer comes last, and the others wait for the other rank's.
  std::string body =
      "buffer x fp32 8x8 input\nbuffer part fp32 8x8 symmetric\nbuffer out fp32 8x8 output\n"
      "signals s 1\n";
  for (int rank = 0; rank < 2; ++rank) {
    for (int i = 0; i < 2; ++i) {
      const std::string rows = i == 0 ? "0:4" : "4:8";
      body += "lane " + std::to_string(rank) + " compute " + std::to_string(i) +
              "\n  wait s.0 >= 1\n  copy part[" + rows + ",0:8] -> out[" + rows + ",0:8]\n";
    }
    const std::string peer = std::to_string(1 - rank);
    body += "lane " + std::to_string(rank) + " compute 2\n  copy x[0:8,0:8] -> part@" + peer +
            "[0:8,0:8]\n  notify s.0@" + peer + " += 1\n";
  }
  EXPECT_TRUE(not_resident(check_text(2, body, 3)).empty());
  EXPECT_EQ(not_resident(check_text(2, body, 2)).size(), 2u);
}

TEST(Residency, PlansCanBeAskedAboutOtherGpus) {
  const Plan plan = text_plan(2, gather(4, "  wait full.0 >= 1\n"), 132);
  EXPECT_TRUE(why_not_resident(plan, 132).empty());
  const std::vector<Diagnostic> found = why_not_resident(plan, 4);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_THAT(found[0].message, HasSubstr("rank 0 has 4 block lanes for 4 SMs"));
  EXPECT_THAT(found[0].hint, HasSubstr("use at most 3 compute and comm lanes"));
}

}  // namespace
}  // namespace stretto
