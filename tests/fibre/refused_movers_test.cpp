// Tiles and memory of movers that cannot work: refused by the host before a launch.
#include <gmock/gmock.h>

#include "fibre/refusal.h"

namespace stretto::fibre {
namespace {

using namespace device;
using testing::HasSubstr;

TEST(RefusedMovers, PushGatherOfTilesOrMemoryThatCannotBe) {
  GatherArgs<GpuBlock> good{};
  auto& tiles = good.channel.producer;
  tiles.num_rows = 7;  // tiles of 2: 4 rows, and 3 of the last rank
  tiles.tile_rows = 2;
  tiles.num_tiles = 4;
  tiles.tiles_per_rank = 2;
  tiles.tiles_per_signal = 2;
  good.channel.signals = address<uint64>(0x30000);
  good.channel.epoch = address<uint64>(0x31000);
  good.greetings = address<Vec16>(0x32000);
  good.state = address<uint64>(0x33000);
  good.shard = address<uint8>(0x10000);
  good.gathered = address<uint8>(0x20000);
  good.row_bytes = 32;
  const auto with = [&](auto change) { return refusal_with(good, change); };
  EXPECT_EQ(with([](auto&) {}), "");
  EXPECT_THAT(with([](auto& args) { args.row_bytes = 24; }),
              HasSubstr("push_gather: rows of 24 bytes; a multiple of 16 is needed"));
  EXPECT_THAT(with([](auto& args) { args.channel.producer.tile_rows = 0; }),
              HasSubstr("producer.tile_rows is 0; at least 1 is needed"));
  EXPECT_THAT(with([](auto& args) { args.channel.producer.tile_rows = 1; }),
              HasSubstr("4 tiles of 1 rows in producer; 7 rows need 7"));
  EXPECT_THAT(with([](auto& args) { args.channel.producer.tiles_per_rank = 3; }),
              HasSubstr("4 tiles for 2 ranks with 3 each; each rank must have as many"));
  EXPECT_THAT(with([](auto& args) { args.channel.producer.tiles_per_signal = 0; }),
              HasSubstr("producer.tiles_per_signal is 0; at least 1 is needed"));
  EXPECT_THAT(with([](auto& args) { args.gathered = nullptr; }),
              HasSubstr("'gathered' is null; 224 bytes are needed"));
  EXPECT_THAT(with([](auto& args) { args.shard = address<const uint8>(0x20000 + 6 * 32); }),
              HasSubstr("'shard' and 'gathered' overlap"));
  EXPECT_EQ(with([](auto& args) { args.shard = address<const uint8>(0x20000 + 7 * 32); }), "");
  EXPECT_THAT(with([](auto& args) { args.channel.signals = nullptr; }),
              HasSubstr("'signals' is null; 16 bytes are needed"));
  EXPECT_THAT(with([](auto& args) { args.channel.producer.low = address<uint64>(0x40000); }),
              HasSubstr("producer.high is null; with the table low it is needed"));
  EXPECT_THAT(with([](auto& args) { args.greetings = nullptr; }),
              HasSubstr("'greetings' is null; 96 bytes are needed"));
  EXPECT_THAT(with([](auto& args) { args.state = address<uint64>(0x32008); }),
              HasSubstr("'greetings' and 'state' overlap"));
}

TEST(RefusedMovers, SlotReduceOfTilesOrMemoryThatCannotBe) {
  SlotReduceArgs<GpuBlock> good{};
  auto& producer = good.channel.producer;
  producer.num_rows = 8;
  producer.tile_rows = 2;
  producer.num_tiles = 4;
  producer.tiles_per_signal = 1;
  good.channel.consumer = producer;
  good.channel.notifies_per_tile = 2;
  good.channel.signals = address<uint64>(0x30000);
  good.channel.epoch = address<uint64>(0x40000);
  good.greetings = address<Vec16>(0x50000);
  good.state = address<uint64>(0x60000);
  good.slots = address<Vec16>(0x10000);
  good.output = address<Vec16>(0x20000);
  good.rows = 8;
  good.row_vectors = 2;
  const auto with = [&](auto change) { return refusal_with(good, change); };
  EXPECT_EQ(with([](auto&) {}), "");
  EXPECT_EQ(with([](auto& args) { args.output = address<Vec16>(0x10000) + 31; }),
            "slot_reduce: 'slots' and 'output' overlap; give each memory of its own");
  EXPECT_THAT(
      with([](auto& args) { args.rows = 9; }),
      HasSubstr("slot_reduce: producer.num_rows is 8, but rows is 9; they must be the same"));
  EXPECT_THAT(with([](auto& args) { args.channel.consumer.num_tiles = 3; }),
              HasSubstr("3 tiles of 2 rows in consumer; 8 rows need 4"));
  EXPECT_THAT(with([](auto& args) { args.channel.notifies_per_tile = 0; }),
              HasSubstr("notifies_per_tile is 0, for which nobody waits; 2 ranks send each tile"));
  EXPECT_THAT(with([](auto& args) { args.channel.epoch = nullptr; }),
              HasSubstr("'epoch' is null; 8 bytes are needed"));
  EXPECT_THAT(with([](auto& args) { args.channel.signals = address<uint64>(0x30004); }),
              HasSubstr("'signals' at 0x30004 is not aligned to 8 bytes"));
  EXPECT_THAT(with([](auto& args) {
                args.channel.producer.low = args.channel.producer.high = address<uint64>(0x50000);
              }),
              HasSubstr("producer.tiles_of_signal is null; with the table low it is needed"));
  EXPECT_THAT(with([](auto& args) { args.state = nullptr; }),
              HasSubstr("'state' is null; 64 bytes are needed"));
}

}  // namespace
}  // namespace stretto::fibre
