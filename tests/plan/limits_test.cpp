// Hostile plans cost no more than their size: declared counts allocate nothing by themselves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "core/sampling.h"
#include "plan/refusal.h"
#include "plan/sample.h"
#include "stretto/error.h"

namespace stretto {
namespace {

using testing::HasSubstr;

constexpr std::string_view kHead =
    "stretto-plan 2\noperator ag-gemm m=8 n=8 k=8 ranks=1 dtype=bf16\nsms 1\n";

TEST(Limits, HugeDeclarationsAreOnlyNumbers) {
  std::string text(kHead);
  text += "buffer x bf16 2147483647x2147483647 symmetric sharded=2147483647 copies=255\n";
  text += "signals s 2147483647 copies=255\n";
  text += "lane 0 compute 65535\n  wait s.2147483646 >= 1099511627776 lag 255\n";
  text += "  deliver x[0:2147483647,0:2147483647]\n  boundary 2147483647\nend\n";
  const Plan plan = parse_plan(text);
  EXPECT_EQ(print(parse_plan(print(plan))), print(plan));
  EXPECT_EQ(plan.buffers[0].rows_on(0), 2147483647);
}

TEST(Limits, DeclarationsFitTheirNumbers) {
  std::string text(kHead);
  for (int i = 0; i < 65536; ++i) text += "signals s" + std::to_string(i) + " 1\n";
  EXPECT_THAT(refusal(text + "end\n"), HasSubstr(":65539:9: expected at most 65535 declarations"));
}

TEST(Limits, OperandsFitTheirCounts) {
  const auto deliver = [](int regions) {
    std::string text = std::string(kHead) + "buffer o bf16 8x8 output\nlane 0 comm 0\n  deliver";
    for (int i = 0; i < regions; ++i) text += " o[0:1,0:1]";
    return text + "\nend\n";
  };
  EXPECT_EQ(refusal(deliver(65535)), "accepted");
  EXPECT_THAT(refusal(deliver(65536)), HasSubstr("expected at most 65535 regions"));
}

TEST(Limits, NamesAreShort) {
  std::string text = std::string(kHead) + "signals " + std::string(65, 'x') + " 1\nend\n";
  EXPECT_THAT(refusal(text), HasSubstr("a signal array's name of at most 64 characters"));
  EXPECT_LT(refusal(std::string(kHead) + "signals " + std::string(1 << 20, 'x')).size(), 200u);
}

TEST(Limits, ErrorsQuoteLittle) {
  EXPECT_LT(refusal(std::string(1 << 20, 'x')).size(), 200u);
  EXPECT_LT(refusal("stretto-plan 2\noperator " + std::string(1 << 20, 'x')).size(), 1000u);
  EXPECT_LT(refusal("stretto-plan 2\noperator " + std::string(1 << 20, ' ')).size(), 1000u);
  EXPECT_LT(refusal(std::string(kHead) + "schedule").size(), 200u);
}

TEST(Limits, SchedulesAreShort) {
  const std::string head = "stretto-plan 2\noperator ag-gemm m=8 n=8 k=8 ranks=1 dtype=bf16\n";
  EXPECT_THAT(refusal(head + "schedule " + std::string(9000, 'x') + "\nsms 1\nend\n"),
              HasSubstr("3:10: expected a schedule's text"));
}

TEST(Limits, ManyNamesDoNotMakeReadingQuadratic) {
  std::string text(kHead);
  for (int i = 0; i < 60000; ++i) text += "buffer b" + std::to_string(i) + " bf16 1x1 output\n";
  text += "lane 0 comm 0\n";
  for (int i = 0; i < 100000; ++i) {
    text += "  deliver b" + std::to_string(59999 - i % 60000) + "[0:1,0:1]\n";
  }
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(refusal(text + "end\n"), "accepted");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(all_or_sample(5, 60)));
}

}  // namespace
}  // namespace stretto
