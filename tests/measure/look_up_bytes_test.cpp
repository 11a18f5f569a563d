#include "measure/look_up_bytes.h"

#include <gtest/gtest.h>

namespace stretto::runtime {
namespace {

double bytes_of(const char* op) { return look_up_bytes(parse_operator(op)); }

TEST(LookUpBytes, AreThoseOfTheRowsThatBagsPickAndOfTheirIndices) {
  // A rank picks 16 rows of 32 bytes in each of two tables, hardly one of them twice.
  constexpr double kIndices = 2 * 16 * 4;
  EXPECT_NEAR(
      bytes_of("embedding-a2a bags=8 tables=4 rows=1000000 dim=16 pool=2 ranks=2 dtype=bf16"),
      2 * 16 * 32 + kIndices, 1);
  // The only row is read once.
  EXPECT_EQ(bytes_of("embedding-a2a bags=8 tables=4 rows=1 dim=16 pool=2 ranks=2 dtype=bf16"),
            2 * 32 + kIndices);
  // Of two rows all but one in 2^15 bags pick both.
  EXPECT_NEAR(bytes_of("embedding-a2a bags=8 tables=4 rows=2 dim=16 pool=2 ranks=2 dtype=bf16"),
              2 * 2 * 32 + kIndices, 0.01);
}

TEST(LookUpBytes, AreOfTheRankWithMostTables) {
  const double each =
      bytes_of("embedding-a2a bags=8 tables=1 rows=100 dim=16 pool=2 ranks=1 dtype=bf16");
  EXPECT_GT(each, 0);
  EXPECT_DOUBLE_EQ(
      bytes_of("embedding-a2a bags=8 tables=6 rows=100 dim=16 pool=2 ranks=3 dtype=bf16"),
      2 * each);
}

TEST(LookUpBytes, AreNoneOfProducts) {
  EXPECT_EQ(bytes_of("gemm-rs m=64 n=64 k=64 ranks=2 dtype=bf16"), 0);
}

}  // namespace
}  // namespace stretto::runtime
