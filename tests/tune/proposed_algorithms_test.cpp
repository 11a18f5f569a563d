// Where cuBLAS proposes fewer algorithms than `auto` chose from.
#include "tune/proposed_algorithms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stretto {
namespace {

using testing::HasSubstr;

constexpr int kAll = kMostAlgorithms;

TEST(NotProposed, AreTheProductsThatAskForMore) {
  EXPECT_THAT(not_proposed(std::vector{0, 0}, std::vector{kAll, kAll}), testing::IsEmpty());
  EXPECT_THAT(not_proposed(std::vector{3, 0, 5}, std::vector{kAll, kAll, 2}),
              testing::ElementsAre(NotProposed{2, 5, 2}));
  EXPECT_THAT(not_proposed(std::vector{3, 5}, std::vector{3, 1}),
              testing::ElementsAre(NotProposed{0, 3, 3}, NotProposed{1, 5, 1}));
}

TEST(NotProposed, OfARefusalSaysWhatWouldBeRight) {
  EXPECT_EQ(why_not_proposed({0, 5, 3}, {}),
            "algorithm=5: cuBLAS proposes 3 for a product of this plan: take 0 to 2");
  EXPECT_THAT(why_not_proposed({0, 1, 1}, {}), testing::EndsWith("take 0"));
  EXPECT_THAT(why_not_proposed({1, 5, 3}, {"up", "down"}), HasSubstr("down: algorithm=5: "));
}

TEST(WithFirstAlgorithms, IsOtherwiseTheSameChoiceAndSaysWhy) {
  const Operator op(parse_segment("gemm-rs m=512 n=1024 k=1024 ranks=2 dtype=bf16"));
  const Machine machine = default_machine(2);
  for (const char* text : {"library", "low-latency,rows=bucket", "decomposed,gemm=library"}) {
    const OperatorSchedule first = parse_schedules(text, op, machine);
    AutoSchedules chosen{first, "the fastest of 9 measured"};
    chosen.schedule.products[0].algorithm = 5;
    const std::vector<NotProposed> of = {{0, 5, 3}};
    const AutoSchedules found = with_first_algorithms(chosen, of);
    EXPECT_EQ(found.schedule, first);
    EXPECT_EQ(found.reason,
              "the fastest of 9 measured; with algorithm=0 instead of 5, for cuBLAS proposes only "
              "3 here");
    EXPECT_EQ(with_first_algorithms(chosen, {}).schedule, chosen.schedule);
  }
}

TEST(WithFirstAlgorithms, LeavesOtherProductsAsTheyWere) {
  const Operator op = parse_operator("mlp m=512 h=1024 f=1024 ranks=2 dtype=bf16");
  const Machine machine = default_machine(2);
  const auto schedule = [&](const char* text) { return parse_schedules(text, op, machine); };
  const std::vector<NotProposed> of = {{1, 5, 3}};
  const AutoSchedules found = with_first_algorithms(
      {schedule("library,algorithm=2/down:library,algorithm=5"), "measured"}, of);
  EXPECT_EQ(found.schedule, schedule("library,algorithm=2/down:library"));
  EXPECT_EQ(found.reason, "measured; with algorithm=0 instead of 5 for " + found.schedule.names[1] +
                              ", for cuBLAS proposes only 3 here");
}

}  // namespace
}  // namespace stretto
