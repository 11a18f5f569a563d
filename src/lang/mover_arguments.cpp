// Arguments of the kernels that move tiles through a channel.
#include <fmt/format.h>

#include "lang/argument_checks.h"
#include "lang/lang_arguments.h"
#include "stretto/error.h"

namespace stretto::cuda {
namespace {

using device::GpuBlock;

// One side of a channel: tiles that cover `num_rows` rows, by a formula or by tables.
void check_tiles(const char* kernel, const char* side, const device::TileMap<GpuBlock>& map,
                 uint64_t num_rows) {
  if (map.low != nullptr) {
    if (map.high != nullptr) return;
    throw UsageError(
        fmt::format("{}: {}.high is null; with the table low it is needed", kernel, side));
  }
  if (map.num_rows != num_rows) {
    throw UsageError(fmt::format("{}: {}.num_rows is {}, but rows is {}; they must be the same",
                                 kernel, side, map.num_rows, num_rows));
  }
  if (num_rows == 0) return;
  const uint64_t needed = map.tile_rows == 0 ? 0 : (num_rows - 1) / map.tile_rows + 1;
  if (map.tile_rows == 0) {
    throw UsageError(fmt::format("{}: {}.tile_rows is 0; at least 1 is needed", kernel, side));
  }
  if (map.num_tiles < needed) {
    throw UsageError(fmt::format("{}: {} tiles of {} rows in {}; {} rows need {}", kernel,
                                 map.num_tiles, map.tile_rows, side, num_rows, needed));
  }
}

// The signals that the producer's tiles raise; how many, where no table says it.
uint64_t check_signals(const char* kernel, const device::TileMap<GpuBlock>& producer) {
  if (producer.low != nullptr) {
    if (producer.signal != nullptr) return 1;
    throw UsageError(
        fmt::format("{}: producer.signal is null; with the table low it is needed", kernel));
  }
  if (producer.tiles_per_signal == 0) {
    throw UsageError(
        fmt::format("{}: producer.tiles_per_signal is 0; at least 1 is needed", kernel));
  }
  if (producer.num_tiles == 0) return 0;
  return (producer.num_tiles - 1) / producer.tiles_per_signal + 1;
}

}  // namespace

void check_arguments(const device::GatherArgs<GpuBlock>& args, const LangCall& call) {
  constexpr const char* kName = "push_gather";
  const auto num = static_cast<uint64_t>(call.ranks);
  const auto& tiles = args.channel.producer;
  if (args.row_bytes == 0 || args.row_bytes % 16 != 0) {
    throw UsageError(
        fmt::format("{}: rows of {} bytes; a multiple of 16 is needed", kName, args.row_bytes));
  }
  check_most(kName, "rows", tiles.num_rows, args.row_bytes / 16);
  check_tiles(kName, "producer", tiles, tiles.num_rows);
  if (tiles.tiles_per_rank > kMost || tiles.num_tiles != tiles.tiles_per_rank * num) {
    throw UsageError(
        fmt::format("{}: {} tiles for {} ranks with {} each; each rank must have as many", kName,
                    tiles.num_tiles, call.ranks, tiles.tiles_per_rank));
  }
  const uint64_t signals = check_signals(kName, tiles);
  // The last rank has fewest rows: what is missing to whole tiles. Tables are not seen from here.
  const uint64_t before = tiles.tile_rows * tiles.tiles_per_rank * (num - 1);
  const uint64_t least =
      tiles.low != nullptr || before >= tiles.num_rows ? 0 : tiles.num_rows - before;
  check_memory(kName,
               {{"shard", args.shard, least * args.row_bytes},
                symmetric({"gathered", args.gathered, tiles.num_rows * args.row_bytes}),
                symmetric({"signals", args.channel.signals, signals * 8, 0, 8}),
                {"epoch", args.channel.epoch, sizeof(uint64_t), 0, 8},
                symmetric({"greetings", args.greetings, 3 * num * 16}),
                {"state", args.state, static_cast<uint64_t>(call.blocks) * 8, 0, 8}},
               call.heap);
}

void check_arguments(const device::SlotReduceArgs<GpuBlock>& args, const LangCall& call) {
  constexpr const char* kName = "slot_reduce";
  const auto& channel = args.channel;
  check_most(kName, "rows", args.rows, args.row_vectors);
  check_tiles(kName, "producer", channel.producer, args.rows);
  check_tiles(kName, "consumer", channel.consumer, args.rows);
  if (channel.producer.low != nullptr && channel.producer.tiles_of_signal == nullptr) {
    throw UsageError(fmt::format(
        "{}: producer.tiles_of_signal is null; with the table low it is needed", kName));
  }
  if (channel.notifies_per_tile == 0) {
    throw UsageError(
        fmt::format("{}: notifies_per_tile is 0, for which nobody waits; {} ranks send each tile",
                    kName, call.ranks));
  }
  const uint64_t signals = check_signals(kName, channel.producer);
  const uint64_t all = args.rows * args.row_vectors * 16;
  check_memory(
      kName,
      {{"slots", args.slots, static_cast<uint64_t>(call.ranks) * all},
       {"output", args.output, all},
       {"signals", channel.signals, signals * 8, 0, 8},
       {"epoch", channel.epoch, sizeof(uint64_t), 0, 8},
       symmetric({"greetings", args.greetings, 3 * static_cast<uint64_t>(call.ranks) * 16}),
       {"state", args.state, static_cast<uint64_t>(call.blocks) * 8, 0, 8}},
      call.heap);
}

}  // namespace stretto::cuda
