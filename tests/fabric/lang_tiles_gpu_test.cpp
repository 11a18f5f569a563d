// The tile layer on GPUs, by formula and by tables: tiles that are pushed and pulled, between
// producers and consumers and between peers.
#include "lang_gpu_fixture.h"

namespace stretto::fabric {
namespace {

constexpr uint64 kTilesOfRank = 6, kTilesOfSignal = 2, kWords = 3;  // a row's, of 8 bytes
constexpr uint64 kConsumerRows = 5;

STRETTO_ON_BOTH(
    kArgs, struct TilesArgs {
      BlockChannel<GpuBlock> channel;
      uint64* rows;   // symmetric
      uint64* own;    // symmetric: the rows of the rank's tiles are written
      uint64* wrong;  // local: a block
      int how;        // 0: push to all, 1: push to the owner, 2: pull behind the peer's notify
    };)

// Word w of row r in a run.
constexpr const char* kCode = R"(
STRETTO_KERNEL void move_tiles(GpuBlock& block, const TilesArgs& args) {
  constexpr uint64 kWords = 3, kBytes = kWords * 8;
  Tiles<GpuBlock> tiles(block, args.channel);
  const int me = block.rank(), ranks = block.num_ranks(), b = block.block_idx();
  const uint64 run = args.channel.epoch[0], num = args.channel.producer.num_tiles;
  const auto word_at = [&](uint64 i) { return run * 1000000 + i; };
  const auto write = [&](uint64* to, Region rows) {
    block.sync();
    for (uint64 i = rows.low * kWords + block.thread_idx(); i < rows.high * kWords;
         i += block.num_threads()) {
      to[i] = word_at(i);
    }
    block.sync();
  };
  const auto check = [&](Region rows) {
    for (uint64 i = rows.low * kWords + block.thread_idx(); i < rows.high * kWords;
         i += block.num_threads()) {
      if (args.rows[i] != word_at(i)) block.fetch_add(args.wrong + b, 1);
    }
  };
  for (uint64 tile = b; tile < num; tile += block.num_blocks()) {
    const int owner = tiles.owner(tile);
    if (args.how == 0 && owner == me) {
      write(args.rows, tiles.region(tile));
      tiles.tile_push_data(args.rows, args.rows, kBytes, tile, To::kAll);
      tiles.producer_tile_notify(tile, To::kAll);
    }
    if (args.how == 1 && (owner + 1) % ranks == me) {
      write(args.own, tiles.region(tile));
      tiles.tile_push_data(args.rows, args.own, kBytes, tile, To::kOwner);
      tiles.producer_tile_notify(tile, To::kOwner);
    }
    if (args.how == 2 && owner == me) {
      write(args.own, tiles.region(tile));
      for (int to = 0; to < ranks; ++to) tiles.peer_tile_notify(tile, to);
    }
  }
  if (args.how == 2) {
    for (uint64 tile = b; tile < num; tile += block.num_blocks()) {
      if (!tiles.peer_tile_wait(tile, tiles.owner(tile))) return;
      tiles.tile_pull_data(args.rows, args.own, kBytes, tile);
      block.sync();
      check(tiles.region(tile));
    }
    return;
  }
  for (uint64 tile = 0; tile < args.channel.consumer.num_tiles; ++tile) {
    const Region rows = tiles.consumer_region(tile);
    bool mine = true;  // to the owner only: tiles of which all rows are this rank's
    for (uint64 t = 0; args.how == 1 && t < num; ++t) {
      const Region theirs = tiles.region(t);
      if (theirs.low < rows.high && rows.low < theirs.high && tiles.owner(t) != me) mine = false;
    }
    if (!mine) continue;
    if (!tiles.consumer_tile_wait(tile)) return;
    check(rows);
  }
}
)";

std::string source() { return own_source(kArgs, kCode, "move_tiles", "TilesArgs"); }

TEST(TilesGpuText, Compiles) { expect_compiles(source()); }

class TilesGpuTest : public LangGpuTest {
 protected:
  void SetUp() override {
    LangGpuTest::SetUp();
    if (IsSkipped()) return;
    num_tiles_ = uint64(ranks_) * kTilesOfRank;
    num_signals_ = num_tiles_ / kTilesOfSignal;
    num_rows_ = num_tiles_ * 4;
    const auto take = [&](const char* name, size_t words) {
      return group_->allocate(name, words * 8, 0);
    };
    rows_ = take("rows", num_rows_ * kWords);
    own_ = take("own", num_rows_ * kWords);
    wrong_ = take("wrong", kBlocks);
    signals_ = take("signals", num_signals_);
    peer_signals_ = take("peer_signals", uint64(ranks_) * num_tiles_);
    epoch_ = take("epoch", 1);
    low_ = take("low", num_tiles_);
    high_ = take("high", num_tiles_);
    rank_ = take("rank", num_tiles_);
    signal_ = take("signal", num_tiles_);
    tiles_of_signal_ = take("tiles_of_signal", num_signals_);
    upload_tables();
    kernels_ = compile_own(source());
  }
  // Tiles of 0 to 7 rows, the last rank's first; signals in turn with those of the same rank.
  void upload_tables() {
    std::vector<uint64> low, high;
    std::vector<uint32> rank, signal;
    uint64 row = 0;
    for (uint64 t = 0; t < num_tiles_; ++t) {
      low.push_back(row);
      row += t + 1 == num_tiles_ ? num_rows_ - row : std::min(t * 5 % 8, num_rows_ - row);
      high.push_back(row);
      rank.push_back(uint32(uint64(ranks_) - 1 - t / kTilesOfRank));
      constexpr uint64 kSignals = kTilesOfRank / kTilesOfSignal;
      signal.push_back(uint32(t / kTilesOfRank * kSignals + t % kSignals));
    }
    for (int r = 0; r < ranks_; ++r) {
      upload(r, low_, low);
      upload(r, high_, high);
      upload(r, rank_, rank);
      upload(r, signal_, signal);
      upload(r, tiles_of_signal_, std::vector<uint64>(num_signals_, kTilesOfSignal));
    }
  }
  BlockChannel<GpuBlock> channel(int r, bool tables) const {
    BlockChannel<GpuBlock> channel{};
    TileMap<GpuBlock>& map = channel.producer;
    map.num_tiles = num_tiles_;
    map.num_rows = num_rows_;
    map.tile_rows = 4;
    map.tiles_per_rank = kTilesOfRank;
    map.tiles_per_signal = kTilesOfSignal;
    if (tables) {
      map.low = group_->at<uint64>(r, low_);
      map.high = group_->at<uint64>(r, high_);
      map.rank = group_->at<uint32>(r, rank_);
      map.signal = group_->at<uint32>(r, signal_);
      map.tiles_of_signal = group_->at<uint64>(r, tiles_of_signal_);
    }
    channel.consumer.num_rows = num_rows_;
    channel.consumer.tile_rows = kConsumerRows;
    channel.consumer.num_tiles = (num_rows_ + kConsumerRows - 1) / kConsumerRows;
    channel.notifies_per_tile = 1;
    channel.signals = group_->at<uint64>(r, signals_);
    channel.peer_signals = group_->at<uint64>(r, peer_signals_);
    channel.epoch = group_->at<uint64>(r, epoch_);
    return channel;
  }
  void expect_moved(int how) {
    for (const bool tables : {false, true}) {
      for (uint64 run = 1; run <= 3; ++run) {
        SCOPED_TRACE(fmt::format("{}, run {}", tables ? "tables" : "formula", run));
        for (int r = 0; r < ranks_; ++r) upload(r, epoch_, std::vector<uint64>{run});
        for (int r = 0; r < ranks_; ++r) {
          launch(kernels_, r,
                 TilesArgs{channel(r, tables), group_->at<uint64>(r, rows_),
                           group_->at<uint64>(r, own_), group_->at<uint64>(r, wrong_), how});
        }
        ASSERT_EQ(error_of_run(), "");
        for (int r = 0; r < ranks_; ++r) {
          EXPECT_EQ(download<uint64>(r, wrong_, kBlocks), std::vector<uint64>(kBlocks, 0));
          expect_rows(r, run, how, tables);
        }
      }
      group_->refill(signals_);
      group_->refill(peer_signals_);
    }
  }
  // On every rank, or where they were pushed to their owner there.
  void expect_rows(int r, uint64 run, int how, bool tables) {
    const auto rows = download<uint64>(r, rows_, num_rows_ * kWords);
    const auto low = download<uint64>(r, low_, num_tiles_);
    const auto high = download<uint64>(r, high_, num_tiles_);
    for (uint64 t = 0; t < num_tiles_; ++t) {
      const uint64 owner = tables ? uint64(ranks_) - 1 - t / kTilesOfRank : t / kTilesOfRank;
      if (how == 1 && owner != uint64(r)) continue;
      const uint64 first = (tables ? low[t] : t * 4) * kWords;
      const uint64 end = (tables ? high[t] : t * 4 + 4) * kWords;
      for (uint64 i = first; i < end; ++i) ASSERT_EQ(rows[i], run * 1'000'000 + i);
    }
  }

  uint64 num_tiles_ = 0, num_signals_ = 0, num_rows_ = 0;
  OwnKernels kernels_;
  size_t rows_, own_, wrong_, signals_, peer_signals_, epoch_, low_, high_, rank_, signal_,
      tiles_of_signal_;
};

TEST_F(TilesGpuTest, PushedToAllRanks) { expect_moved(0); }
TEST_F(TilesGpuTest, PushedToTheirOwner) { expect_moved(1); }
TEST_F(TilesGpuTest, PulledBehindTheOwnersNotify) { expect_moved(2); }

}  // namespace
}  // namespace stretto::fabric
