#include "stretto/operator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "stretto/error.h"

namespace stretto {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

TEST(Operator, ServesAnyRowCount) {
  for (const OpKind kind : {OpKind::ag_gemm, OpKind::gemm_rs, OpKind::gemm_ar}) {
    for (int64_t m : {1, 2, 7, 8, 9, 1000}) {
      EXPECT_THAT(problems({kind, m, 24, 16, 8, DType::bf16}), IsEmpty());
    }
  }
}

TEST(Operator, NamesEveryBadSizeAtOnce) {
  EXPECT_THAT(problems({OpKind::gemm_rs, 0, -3, kMaxDim + 1, 0, DType::bf16}),
              ElementsAre("m is 0; it must be at least 1", "n is -3; it must be at least 1",
                          "k is 1073741825; it can be at most 1073741824",
                          "ranks is 0; it must be between 1 and 1024"));
}

TEST(Operator, ShardedSizesMustDivide) {
  EXPECT_THAT(problems({OpKind::ag_gemm, 8, 10, 16, 4, DType::bf16}),
              ElementsAre(HasSubstr("n = 10 is sharded over 4 ranks and must divide: "
                                    "take n = 8 or 12")));
  EXPECT_THAT(problems({OpKind::gemm_rs, 8, 10, 3, 4, DType::bf16}),
              ElementsAre(HasSubstr("take k = 4")));
  EXPECT_THAT(problems({OpKind::gemm_ar, 8, 10, 6, 4, DType::bf16}), SizeIs(1));
  // The sizes that an operator does not shard need not divide.
  EXPECT_THAT(problems({OpKind::ag_gemm, 8, 8, 3, 4, DType::bf16}), IsEmpty());
}

TEST(Operator, HostileSizesDoNotOverflow) {
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  constexpr int kManyRanks = std::numeric_limits<int>::max();
  EXPECT_THAT(problems({OpKind::gemm_rs, kHuge, kHuge, kHuge, kManyRanks, DType::bf16}), SizeIs(4));
  EXPECT_THAT(problems({OpKind::gemm_rs, kMaxDim, kMaxDim, kMaxDim, 1, DType::bf16}),
              testing::Each(HasSubstr("a tensor can have at most 1099511627776")));
  EXPECT_THAT(problems({OpKind::gemm_rs, 1, 1, std::numeric_limits<int64_t>::min(),
                        std::numeric_limits<int>::min(), DType::bf16}),
              SizeIs(2));
}

TEST(Operator, ValidateThrowsAllReasonsInOneLine) {
  try {
    validate({OpKind::gemm_ar, 0, 0, 8, 1, DType::bf16});
    FAIL() << "not refused";
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(),
                 "gemm-ar: m is 0; it must be at least 1; n is 0; it must be at least 1");
  }
}

TEST(Operator, LinkBytesFollowTheFormulas) {
  const auto bytes = [](OpKind kind, int ranks, DType dtype) {
    return link_bytes({kind, 4096, 8192, 16384, ranks, dtype});
  };
  EXPECT_DOUBLE_EQ(bytes(OpKind::ag_gemm, 8, DType::bf16), 7.0 / 8 * 4096 * 16384 * 2);
  EXPECT_DOUBLE_EQ(bytes(OpKind::gemm_rs, 8, DType::bf16), 7.0 / 8 * 4096 * 8192 * 2);
  EXPECT_DOUBLE_EQ(bytes(OpKind::gemm_ar, 8, DType::fp32), 2 * 7.0 / 8 * 4096 * 8192 * 4);
  EXPECT_EQ(bytes(OpKind::gemm_ar, 1, DType::bf16), 0);
}

TEST(Operator, EveryRankDoesItsShareOfTheWork) {
  EXPECT_DOUBLE_EQ(flops_per_rank({OpKind::gemm_rs, 4096, 8192, 28672, 8, DType::bf16}),
                   2.0 * 4096 * 8192 * 28672 / 8);
}

TEST(RowShards, CoverAllRowsOnce) {
  for (int ranks : {1, 2, 3, 8}) {
    for (int64_t rows : {1, 2, 5, 8, 9, 63, 64, 65}) {
      const RowShards shards{rows, ranks};
      int64_t next = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        EXPECT_EQ(shards.begin(rank), next);
        for (int64_t row = shards.begin(rank); row < shards.end(rank); ++row) {
          EXPECT_EQ(shards.owner(row), rank);
        }
        next = shards.end(rank);
      }
      EXPECT_EQ(next, rows);
    }
  }
}

}  // namespace
}  // namespace stretto
