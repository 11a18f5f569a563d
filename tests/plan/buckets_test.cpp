// Buckets hold what was asked for, waste little, and are few.
#include "stretto/buckets.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace stretto {
namespace {

TEST(Buckets, WasteAnEighthAtMost) {
  for (const ProductKind kind : {kAgGemm, kGemmRs, kGemmAr}) {
    for (const int ranks : {1, 3, 8}) {
      const int64_t owners = kind == kGemmAr ? 1 : ranks;
      std::set<int64_t> buckets;
      for (int64_t rows = 1; rows <= 16384; rows += rows < 300 ? 1 : 37) {
        const int64_t bucket = bucket_of(kind, ranks, rows);
        EXPECT_GE(bucket, rows);
        EXPECT_EQ(bucket % owners, 0);
        const bool close = (bucket - rows) * 8 <= bucket || bucket - rows < 65 * owners;
        EXPECT_TRUE(close) << rows << " in " << bucket << " of " << owners;
        EXPECT_EQ(bucket_of(kind, ranks, bucket), bucket);
        buckets.insert(bucket);
      }
      EXPECT_LE(buckets.size(), 60u);
    }
  }
}

TEST(Buckets, AllUpToSomeRowsAreThoseThatTheRowsHave) {
  for (const ProductKind kind : {kAgGemm, kGemmAr}) {
    for (const int64_t most : {1, 64, 65, 1000, 5000}) {
      std::set<int64_t> met;
      for (int64_t rows = 1; rows <= most; ++rows) met.insert(bucket_of(kind, 4, rows));
      EXPECT_EQ(buckets_up_to(kind, 4, most), std::vector<int64_t>(met.begin(), met.end()));
    }
  }
}

}  // namespace
}  // namespace stretto
