// The tile layer: movers joined by channels, with producer and consumer tiles of different sizes
// and with mappings by table.
#include "stretto/device/lang/tile.h"

#include "fibre/expect_clean.h"
#include "fibre/scenarios/movers.h"
#include "stretto/device/lang/kernels/movers.h"

namespace stretto::fibre {
namespace {

using namespace stretto::device;

constexpr uint64 kRows = 24;  // of the whole tensor
constexpr uint64 kRowBytes = 32;

TileMap<Block> affine(uint64 tile_rows, uint64 tiles_per_rank, uint64 tiles_per_signal) {
  TileMap<Block> map{};
  map.num_tiles = (kRows + tile_rows - 1) / tile_rows;
  map.num_rows = kRows;
  map.tile_rows = tile_rows;
  map.tiles_per_rank = tiles_per_rank;
  map.tiles_per_signal = tiles_per_signal;
  return map;
}

uint8 byte_at(uint64 run, uint64 at) { return uint8(run * 31 + at % 251); }

// All-gather of tiles of 2 rows, consumed in tiles of 5 rows by other blocks of the same kernel;
// two runs, each into its own tensor.
TEST(Tiles, GatheredRowsAreThereWhenTheWaitReturns) {
  expect_clean(
      {.ranks = 3, .blocks = 2, .threads = 4},
      [](World& world) {
        const uint64 shard_rows = kRows / 3;
        auto signals = world.symmetric<uint64>("signals", 6, 0);
        std::vector<Buffer<uint8>> outs;
        for (uint64 run = 1; run <= 2; ++run) {
          auto shard = world.local<uint8>("shard", shard_rows * kRowBytes);
          auto gathered = world.symmetric<uint8>("gathered", kRows * kRowBytes);
          auto out = world.local<uint8>("out", kRows * kRowBytes);
          auto epoch = world.local<uint64>("epoch", 1, run);
          for (int r = 0; r < 3; ++r) {
            for (uint64 i = 0; i < shard_rows * kRowBytes; ++i) {
              shard.set(r, i, byte_at(run, uint64(r) * shard_rows * kRowBytes + i));
            }
          }
          world.launch(3, world.shape().threads, [=](Block& block) {
            const int r = block.rank();
            GatherArgs<Block> args{};
            args.channel.producer = affine(2, 4, 2);
            args.channel.consumer = affine(5, 0, 0);
            args.channel.notifies_per_tile = 1;
            args.channel.signals = signals.at(r);
            args.channel.epoch = epoch.at(r);
            args.shard = shard.at(r);
            args.gathered = gathered.at(r);
            args.row_bytes = kRowBytes;
            if (block.block_idx() > 0) {
              Tiles tiles(block, args.channel);
              for (uint64 t = uint64(block.block_idx() - 1); t < args.channel.consumer.num_tiles;
                   t += 2) {
                if (!tiles.consumer_tile_wait(t)) return;
                const Region rows = tiles.consumer_region(t);
                for (uint64 i = rows.low * kRowBytes + uint64(block.thread_idx());
                     i < rows.high * kRowBytes; i += uint64(block.num_threads())) {
                  out.at(r)[i] = gathered.at(r)[i];
                }
              }
              return;
            }
            // Only block 0 gathers, so its grid is one block.
            Tiles tiles(block, args.channel);
            for (uint64 t = 0; t < 4; ++t) {
              const uint64 tile = uint64(r) * 4 + t;
              const Region rows = tiles.region(tile);
              const auto source = shard.at(r) - uint64(r) * shard_rows * kRowBytes;
              tiles.tile_push_data(gathered.at(r), source, kRowBytes, tile, To::kAll);
              for (uint64 i = rows.low * kRowBytes + uint64(block.thread_idx());
                   i < rows.high * kRowBytes; i += uint64(block.num_threads())) {
                gathered.at(r)[i] = source[i];
              }
              tiles.producer_tile_notify(tile, To::kAll);
            }
          });
          outs.push_back(out);
        }
        if (!world.run()) return;
        for (uint64 run = 1; run <= 2; ++run) {
          for (int r = 0; r < 3; ++r) {
            for (uint64 i = 0; i < kRows * kRowBytes; ++i) {
              world.expect(outs[run - 1].get(r, i) == byte_at(run, i), "a byte is wrong");
            }
          }
        }
      },
      15);
}

TEST(Tiles, MoverGathersEveryRow) {
  expect_clean({.ranks = 4, .blocks = 2, .threads = 4}, push_gather_calls, 15);
}

TEST(Tiles, SlotsAreReducedInRankOrder) {
  expect_clean({.ranks = 3, .blocks = 2, .threads = 4}, slot_reduce_calls<Bf16x8>, 15);
  expect_clean({.ranks = 4, .blocks = 1, .threads = 1}, slot_reduce_calls<Fp16x8>, 10);
  expect_clean({.ranks = 5, .blocks = 2, .threads = 2}, slot_reduce_calls<Fp32x4>, 10);
}

// Routing decides: tile t covers rows low[t] to high[t], lives on rank[t] and raises signal[t].
TEST(Tiles, TablesMapTilesToRegionsRanksAndSignals) {
  expect_clean(
      {.ranks = 3, .threads = 4},
      [](World& world) {
        const uint64 lows[] = {0, 3, 3, 10}, highs[] = {3, 3, 10, 12};
        const uint32 ranks[] = {1, 0, 2, 0}, signal[] = {0, 1, 1, 1};
        const uint64 covered[] = {1, 3};
        auto low = world.local<uint64>("low", 4), high = world.local<uint64>("high", 4);
        auto rank = world.local<uint32>("rank", 4), sig = world.local<uint32>("signal", 4);
        auto tiles_of_signal = world.local<uint64>("tiles_of_signal", 2);
        auto rows = world.symmetric<uint8>("rows", 12);
        auto out = world.local<uint8>("out", 12, 0);
        auto signals = world.symmetric<uint64>("signals", 2, 0);
        auto peers = world.symmetric<uint64>("peers", 3 * 4, 0);
        auto epoch = world.local<uint64>("epoch", 1, 1);
        auto own = world.local<uint8>("own", 12, 9);
        for (int r = 0; r < 3; ++r) {
          for (size_t t = 0; t < 4; ++t) {
            low.set(r, t, lows[t]), high.set(r, t, highs[t]);
            rank.set(r, t, ranks[t]), sig.set(r, t, signal[t]);
          }
          for (size_t s = 0; s < 2; ++s) tiles_of_signal.set(r, s, covered[s]);
        }
        world.launch([=](Block& block) {
          const int r = block.rank();
          BlockChannel<Block> channel{};
          channel.producer = {4,         12,         0,          0,         0,
                              low.at(r), high.at(r), rank.at(r), sig.at(r), tiles_of_signal.at(r)};
          channel.consumer.num_tiles = 3;
          channel.consumer.num_rows = 12;
          channel.consumer.tile_rows = 4;
          channel.notifies_per_tile = 1;
          channel.signals = signals.at(r);
          channel.peer_signals = peers.at(r);
          channel.epoch = epoch.at(r);
          Tiles tiles(block, channel);
          for (uint64 t = 0; t < 4; ++t) {
            if (tiles.owner(t) != r) continue;
            tiles.tile_push_data(rows.at(r), own.at(r), 1, t, To::kOwner);
            tiles.tile_push_data(rows.at(r), own.at(r), 1, t, To::kAll);
            tiles.producer_tile_notify(t, To::kAll);
            tiles.peer_tile_notify(t, (r + 1) % 3);
          }
          for (uint64 t = 0; t < 4; ++t) {
            if (tiles.owner(t) == (r + 2) % 3 && !tiles.peer_tile_wait(t, tiles.owner(t))) return;
          }
          for (uint64 t = 0; t < 3; ++t) {
            if (!tiles.consumer_tile_wait(t)) return;
            const Region region = tiles.consumer_region(t);
            for (uint64 i = region.low + uint64(block.thread_idx()); i < region.high; i += 4) {
              out.at(r)[i] = rows.at(r)[i];
            }
          }
        });
        if (!world.run()) return;
        for (int r = 0; r < 3; ++r) {
          for (size_t i = 0; i < 12; ++i) world.expect(out.get(r, i) == 9, "a row is missing");
        }
      },
      30);
}

}  // namespace
}  // namespace stretto::fibre
