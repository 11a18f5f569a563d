// Movers of the device language on GPUs: what arrives, and who is named.
#include "lang_gpu_fixture.h"
#include "stretto/device/lang/kernels/movers.h"

namespace stretto::fabric {
namespace {

using ::testing::HasSubstr;

// Both movers, run after run, over the same memory.
class MoversGpuTest : public LangGpuTest {
 protected:
  static constexpr uint64 kTiles = 5, kTileRows = 3, kVectors = 70, kRuns = 4;
  static constexpr uint64 kRows = kTiles * kTileRows;  // of a rank

  void SetUp() override {
    LangGpuTest::SetUp();
    if (IsSkipped()) return;
    num_ = uint64(ranks_);
    shard_ = group_->allocate("shard", kRows * kVectors * 16, 0);
    gathered_ = group_->allocate("gathered", num_ * kRows * kVectors * 16, 0);
    sums_ = group_->allocate("sums", kRows * kVectors * 16, 0);
    signals_ = group_->allocate("signals", num_ * kTiles * 8, 0);
    reduced_ = group_->allocate("reduced", kTiles * 8, 0);
    epoch_ = group_->allocate("epoch", 8, 0);
    gather_greetings_ = group_->allocate("gather greetings", 3 * num_ * 16, kNoGreeting);
    reduce_greetings_ = group_->allocate("reduce greetings", 3 * num_ * 16, kNoGreeting);
    state_ = group_->allocate("state", 4 * kBlocks * 8, 0);
    gather_ = compile({"kernels/movers.h", "push_gather<GpuBlock>", "GatherArgs<GpuBlock>"});
    reduce_ =
        compile({"kernels/movers.h", "slot_reduce<Fp32x4, GpuBlock>", "SlotReduceArgs<GpuBlock>"});
  }
  BlockChannel<GpuBlock> channel(int r, uint64 rows, uint64 tiles, size_t signals) {
    BlockChannel<GpuBlock> channel{};
    channel.producer.num_rows = rows;
    channel.producer.num_tiles = tiles;
    channel.producer.tile_rows = kTileRows;
    channel.producer.tiles_per_rank = kTiles;
    channel.producer.tiles_per_signal = 1;
    channel.consumer = channel.producer;
    channel.notifies_per_tile = 1;
    channel.signals = group_->at<uint64>(r, signals);
    channel.epoch = group_->at<uint64>(r, epoch_);
    return channel;
  }
  GatherArgs<GpuBlock> gather_args(int r) {
    return {channel(r, num_ * kRows, num_ * kTiles, signals_),
            group_->at<uint8>(r, shard_),
            group_->at<uint8>(r, gathered_),
            kVectors * 16,
            group_->at<Vec16>(r, gather_greetings_),
            group_->at<uint64>(r, state_)};
  }
  // Adds up what was gathered; its tiles have all come, by the host's signals.
  SlotReduceArgs<GpuBlock> reduce_args(int r) {
    return {channel(r, kRows, kTiles, reduced_),
            group_->at<Vec16>(r, gathered_),
            group_->at<Vec16>(r, sums_),
            kRows,
            kVectors,
            group_->at<Vec16>(r, reduce_greetings_),
            group_->at<uint64>(r, state_) + 2 * kBlocks};
  }
  static float value_at(uint64 rank, uint64 run, size_t i) {
    return float((rank * 7 + run * 5 + i) % 23);
  }

  uint64 num_ = 0;
  Kernels gather_, reduce_;
  size_t shard_, gathered_, sums_, signals_, reduced_, epoch_, gather_greetings_, reduce_greetings_,
      state_;
};

TEST_F(MoversGpuTest, GatherAndReduceRunAfterRun) {
  const size_t count = kRows * kVectors * 4;
  for (uint64 run = 1; run <= kRuns; ++run) {
    for (int r = 0; r < ranks_; ++r) {
      std::vector<float> shard(count);
      for (size_t i = 0; i < count; ++i) shard[i] = value_at(uint64(r), run, i);
      upload(r, shard_, shard);
      upload(r, epoch_, std::vector<uint64>{run});
      upload(r, reduced_, std::vector<uint64>(kTiles, run));
    }
    for (int r = 0; r < ranks_; ++r) launch(gather_, r, gather_args(r));
    ASSERT_EQ(error_of_run(), "");
    for (int r = 0; r < ranks_; ++r) launch(reduce_, r, reduce_args(r));
    ASSERT_EQ(error_of_run(), "");
    for (int r = 0; r < ranks_; ++r) {
      EXPECT_EQ(download<uint64>(r, signals_, num_ * kTiles),
                std::vector<uint64>(num_ * kTiles, run));
      const auto sums = download<float>(r, sums_, count);
      for (size_t i = 0; i < count; ++i) {
        float want = 0;
        for (uint64 from = 0; from < num_; ++from) want += value_at(from, run, i);
        ASSERT_EQ(sums[i], want) << "run " << run << " rank " << r << " element " << i;
      }
    }
  }
}

TEST_F(MoversGpuTest, RanksThatCallOtherwiseAreNamed) {
  for (int r = 0; r < ranks_; ++r) upload(r, epoch_, std::vector<uint64>{uint64(r == 1 ? 2 : 1)});
  for (int r = 0; r < ranks_; ++r) launch(gather_, r, gather_args(r));
  EXPECT_THAT(error_of_run(), HasSubstr("different arguments: epoch is "));
}

}  // namespace
}  // namespace stretto::fabric
