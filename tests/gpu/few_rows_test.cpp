// Tiles of the kernel of few rows: what is chosen is a kernel for every product that it is for.
#include <gtest/gtest.h>

#include "compiler_fixture.h"
#include "gpu/few_rows_kernel.h"

namespace stretto::cuda {
namespace {

using device::FewRowsConfig;
using device::Follower;

constexpr int kSms = 132;

TEST(FewRowsTiles, AreLegalForEveryShape) {
  for (const int sms : {kSms, 114, 78, 1}) {
    for (int64_t rows = 1; rows <= device::kMostFewRows; ++rows) {
      for (const int64_t columns : {8, 136, 768, 2048, 5120, 8192, 57344}) {
        for (const int64_t k : {8, 512, 2432, 28672}) {
          for (const Follower follower : {Follower::none, Follower::swiglu, Follower::gelu}) {
            const FewRowsShape shape{rows, columns, k, DType::bf16, follower};
            if (!why_no_few_rows(shape).empty()) continue;
            const FewRowsConfig config = fitted(shape, sms);
            ASSERT_EQ(why_illegal(config), "")
                << rows << " " << columns << " " << k << " " << sms << ": " << describe(config);
          }
        }
      }
    }
  }
}

TEST(FewRowsTiles, ThatAreSentAreLegal) {
  int beside = 0;
  for (int64_t rows = 129; rows <= device::kMostSentRows; rows += 31) {
    for (const int64_t columns : {8, 768, 5120, 57344}) {
      for (const double sent : {0.5, 1.0, 7.0}) {
        const FewRowsConfig config =
            fitted({rows, columns, 2432, DType::bf16, Follower::none, false, sent}, kSms);
        ASSERT_EQ(why_illegal(config), "") << rows << " " << columns << ": " << describe(config);
        beside += config.sends_beside() ? 1 : 0;
      }
    }
  }
  EXPECT_GT(beside, 300);
}

// What links would take behind the product goes beside its next tiles, if it is more than what
// narrower tiles cost.
TEST(FewRowsTiles, AreSentBesideTheNextWhereThatEndsSooner) {
  const auto sends_beside = [](int64_t rows, int64_t columns, int64_t k, double sent) {
    return fitted({rows, columns, k, DType::bf16, Follower::none, false, sent}, kSms)
        .sends_beside();
  };
  EXPECT_TRUE(sends_beside(344, 8192, 2048, 1));
  EXPECT_TRUE(sends_beside(512, 8192, 4096, 1));
  EXPECT_TRUE(sends_beside(1937, 3072, 768, 0.5));
  EXPECT_FALSE(sends_beside(344, 8192, 2048, 0));
  EXPECT_FALSE(sends_beside(203, 4096, 2048, 0.5));
}

// What keeps the time of multiplying: all SMs at work in one round, and long K in ranges.
TEST(FewRowsTiles, FillTheSms) {
  const auto blocks = [](int64_t rows, int64_t columns, int64_t k) {
    const FewRowsConfig c = fitted({rows, columns, k, DType::bf16}, kSms);
    const auto tiles = [](int64_t size, int64_t tile) { return (size + tile - 1) / tile; };
    return tiles(rows, c.rows) * tiles(columns, c.columns) * c.splits;
  };
  EXPECT_EQ(blocks(344, 8192, 2048), 128);
  EXPECT_EQ(blocks(256, 8192, 4096), 128);
  EXPECT_EQ(blocks(400, 4096, 7168), 128);
  EXPECT_EQ(fitted({400, 4096, 7168, DType::bf16}, kSms).splits, 2);
  EXPECT_EQ(fitted({344, 8192, 2048, DType::bf16}, kSms).splits, 1);
}

TEST(FewRowsTiles, IllegalOnesSayWhatWouldBeRight) {
  const auto why = [](auto change) {
    FewRowsConfig config{.columns = 128, .rows = 128, .stages = 4};
    change(config);
    return why_illegal(config);
  };
  EXPECT_EQ(why([](FewRowsConfig&) {}), "");
  EXPECT_EQ(why([](FewRowsConfig& c) { c.columns = 72; }),
            "tiles of few rows have a multiple of 8 columns up to 64 or of 16 up to 128, not 72");
  EXPECT_EQ(why([](FewRowsConfig& c) { c.consumers = 1; }),
            "of wide tiles consumers have a half each");
  EXPECT_EQ(why([](FewRowsConfig& c) { c.splits = c.row_blocks = 2; }),
            "blocks share, or have a range of K each");
  EXPECT_EQ(why([](FewRowsConfig& c) { c.follower = Follower::swiglu, c.row_blocks = 2; }),
            "tiles of a gate have a multiple of 16 columns, and share nothing");
  EXPECT_EQ(why([](FewRowsConfig& c) { c.row_blocks = 16; }), "1 to 8 blocks share, not 16 x 1");
  EXPECT_EQ(why([](FewRowsConfig& c) { c.rows = 144, c.column_blocks = 4; }),
            "blocks that share load pieces of a multiple of 8 rows");
  EXPECT_EQ(why([](FewRowsConfig& c) { c.senders = 5; }),
            "0 to 4 warps send tiles beside the next, not 5");
  EXPECT_EQ(why([](FewRowsConfig& c) { c.senders = 2, c.rows = 208; }),
            "tiles that are sent beside the next have 128 columns and up to 192 rows, of blocks "
            "without a cluster, one an SM");
  EXPECT_EQ(why([](FewRowsConfig& c) { c.columns = 64, c.rows = 144, c.blocks_per_sm = 2; }),
            "two blocks of more than 128 rows have no registers on one SM");
}

class FewRowsKernels : public NeedsCompiler {};

// The tallest of each sort: by halves and in turns, whole and in ranges, alone and sharing, sent
// beside the next.
TEST_F(FewRowsKernels, DoNotSpill) {
  for (const FewRowsConfig& config :
       {FewRowsConfig{.columns = 128, .rows = 256, .stages = 4},
        FewRowsConfig{.columns = 128, .rows = 256, .stages = 4, .splits = 2},
        FewRowsConfig{
            .columns = 128, .rows = 256, .stages = 4, .row_blocks = 2, .column_blocks = 2},
        FewRowsConfig{.rows = 256, .stages = 4},
        FewRowsConfig{.columns = 128, .rows = 192, .stages = 4, .senders = device::kSenders},
        FewRowsConfig{.rows = 256, .stages = 5, .consumers = 1, .splits = 4, .bf16 = false},
        FewRowsConfig{.stages = 6, .blocks_per_sm = 2, .follower = Follower::swiglu},
        FewRowsConfig{.columns = 48, .rows = 128, .follower = Follower::swiglu, .bias = true},
        FewRowsConfig{.rows = 128,
        .stages = 6,
        .consumers = 1,
        .splits = 4,
        .blocks_per_sm = 2,
        .follower = Follower::swiglu}}) {
    expect_no_spills_in_time(describe(config), few_rows_source(config), "sm_90a");
  }
}

}  // namespace
}  // namespace stretto::cuda
