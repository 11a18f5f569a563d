// Where cuBLAS proposes fewer algorithms than `auto` chose from.
#include "tune/proposed_algorithms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stretto {
namespace {

using testing::HasSubstr;

TEST(AlgorithmToTake, IsTheOneAskedForWhereItIsProposed) {
  for (const IfNotProposed otherwise : {IfNotProposed::refuse, IfNotProposed::take_first}) {
    for (int asked = 0; asked < kMostAlgorithms; ++asked) {
      for (int proposed = asked + 1; proposed <= kMostAlgorithms; ++proposed) {
        EXPECT_EQ(algorithm_to_take(asked, proposed, otherwise), asked);
      }
    }
  }
}

TEST(AlgorithmToTake, IsTheFirstWhereAutoChoseAnother) {
  for (int asked = 1; asked < kMostAlgorithms; ++asked) {
    for (int proposed = 1; proposed <= asked; ++proposed) {
      EXPECT_EQ(algorithm_to_take(asked, proposed, IfNotProposed::take_first), 0);
      EXPECT_EQ(algorithm_to_take(asked, proposed, IfNotProposed::refuse), std::nullopt);
    }
  }
}

TEST(AlgorithmToTake, OfARefusalSaysWhatWouldBeRight) {
  EXPECT_THAT(why_not_proposed(5, 3), HasSubstr("algorithm=5: cuBLAS proposes 3 "));
  EXPECT_THAT(why_not_proposed(5, 3), HasSubstr("take 0 to 2"));
  EXPECT_THAT(why_not_proposed(1, 1), testing::EndsWith("take 0"));
}

TEST(WithFirstAlgorithm, IsOtherwiseTheSameChoiceAndSaysWhy) {
  const Segment op = parse_segment("gemm-rs m=512 n=1024 k=1024 ranks=2 dtype=bf16");
  const Machine machine = default_machine(2);
  for (const char* text : {"library", "low-latency,rows=bucket", "decomposed,gemm=library"}) {
    const Schedule first = parse_schedule(text, op, machine);
    AutoSchedule chosen{first, "the fastest of 9 measured"};
    chosen.schedule.algorithm = 5;
    const AutoSchedule found = with_first_algorithm(chosen, 3);
    EXPECT_EQ(found.schedule, first);
    EXPECT_EQ(found.reason,
              "the fastest of 9 measured; with algorithm=0 instead of 5, for cuBLAS proposes only "
              "3 here");
  }
}

}  // namespace
}  // namespace stretto
