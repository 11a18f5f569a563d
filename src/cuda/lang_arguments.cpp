#include "cuda/lang_arguments.h"

#include <fmt/format.h>

#include <vector>

#include "stretto/error.h"

namespace stretto::cuda {
namespace {

using device::GpuBlock;

struct Memory {
  const char* name;
  const void* at;
  uint64_t num_bytes;
  // May be the same memory as another with the same mark, but not overlap it otherwise.
  int in_place = 0;
  uint64_t alignment = 16;
};

bool overlap(const Memory& a, const Memory& b) {
  const auto first = reinterpret_cast<uint64_t>(a.at);
  const auto second = reinterpret_cast<uint64_t>(b.at);
  if (a.num_bytes == 0 || b.num_bytes == 0) return false;
  if (first == second && a.in_place != 0 && a.in_place == b.in_place) return false;
  return first < second + b.num_bytes && second < first + a.num_bytes;
}

void check_memory(const char* kernel, const std::vector<Memory>& all) {
  for (const Memory& memory : all) {
    if (memory.num_bytes == 0) continue;
    if (memory.at == nullptr) {
      throw UsageError(fmt::format("{}: '{}' is null; {} bytes are needed", kernel, memory.name,
                                   memory.num_bytes));
    }
    if (reinterpret_cast<uint64_t>(memory.at) % memory.alignment != 0) {
      throw UsageError(fmt::format("{}: '{}' at {} is not aligned to {} bytes", kernel, memory.name,
                                   memory.at, memory.alignment));
    }
  }
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t j = i + 1; j < all.size(); ++j) {
      if (!overlap(all[i], all[j])) continue;
      throw UsageError(fmt::format("{}: '{}' and '{}' overlap; give each memory of its own", kernel,
                                   all[i].name, all[j].name));
    }
  }
}

void check_shape(const char* kernel, const device::ExpertShape& shape, uint32_t tokens, int ranks) {
  if (const char* why = why_illegal(shape, static_cast<uint32_t>(ranks))) {
    throw UsageError(fmt::format("{}: {}", kernel, why));
  }
  if (tokens > shape.max_tokens) {
    throw UsageError(
        fmt::format("{}: {} tokens, but max_tokens is {}", kernel, tokens, shape.max_tokens));
  }
}

constexpr uint64_t kMost = (1u << 31) - 1;  // rows or tokens, and vectors of one

void check_most(const char* kernel, const char* what, uint64_t number, uint64_t row_vectors) {
  if (number <= kMost && row_vectors <= kMost) return;
  throw UsageError(fmt::format("{}: {} {} of {} vectors; at most {} of each are served", kernel,
                               number, what, row_vectors, kMost));
}

void check_fp8_row(const char* kernel, const device::NormArgs<GpuBlock>& norm,
                   uint64_t row_vectors) {
  if (norm.fp8_scale == nullptr || row_vectors % 2 == 0) return;
  throw UsageError(
      fmt::format("{}: {} vectors a row; fp8 output needs an even number", kernel, row_vectors));
}

// Of kernels that norm rows.
template <class Args>
void check_rows(const char* kernel, const Args& args) {
  if (args.tokens > args.max_tokens) {
    throw UsageError(
        fmt::format("{}: {} tokens, but max_tokens is {}", kernel, args.tokens, args.max_tokens));
  }
  check_most(kernel, "tokens", args.max_tokens, args.row_vectors);
  check_fp8_row(kernel, args.norm, args.row_vectors);
}

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

// Of the kernels that take the same arguments, two-shot needs the fewest slots.
uint64_t least_slots(uint64_t ranks, uint64_t most) {
  return 6 * ranks * ((most + ranks - 1) / ranks);
}

}  // namespace

void check_arguments(const device::AllReduceArgs<GpuBlock>& args, int ranks, int blocks) {
  constexpr const char* kName = "all_reduce";
  const auto num = static_cast<uint64_t>(ranks);
  if (args.num_vectors > args.max_vectors) {
    throw UsageError(fmt::format("{}: {} vectors, but max_vectors is {}", kName, args.num_vectors,
                                 args.max_vectors));
  }
  check_memory(kName, {{"input", args.input, args.num_vectors * 16, 1},
                       {"output", args.output, args.num_vectors * 16, 1},
                       {"slots", args.slots, least_slots(num, args.max_vectors) * 16},
                       {"greetings", args.greetings, 3 * num * 16},
                       {"state", args.state, static_cast<uint64_t>(blocks) * 16, 0, 8}});
}

void check_arguments(const device::AllReduceNormArgs<GpuBlock>& args, int ranks, int blocks) {
  constexpr const char* kName = "all_reduce_norm";
  const auto num = static_cast<uint64_t>(ranks);
  check_rows(kName, args);
  const bool fp8 = args.norm.fp8_scale != nullptr;
  const uint64_t all = args.tokens * args.row_vectors * 16;
  const uint64_t kept =
      args.own_rows != 0 ? (args.tokens + num - 1) / num * args.row_vectors * 16 : all;
  check_memory(kName,
               {{"input", args.input, all},
                {"residual", args.residual, kept, 1},
                {"new_residual", args.new_residual, kept, 1},
                {"output", args.output, fp8 ? all / 2 : all},
                {"weight", args.norm.weight, args.row_vectors * 16},
                {"fp8_scale", args.norm.fp8_scale, fp8 ? sizeof(float) : 0, 0, 4},
                {"slots", args.slots, least_slots(num, args.max_tokens) * args.row_vectors * 16},
                {"greetings", args.greetings, 3 * num * 16},
                {"state", args.state, static_cast<uint64_t>(blocks) * 16, 0, 8}});
}

void check_arguments(const device::ScatterNormGatherArgs<GpuBlock>& args, int ranks, int blocks) {
  constexpr const char* kName = "scatter_norm_gather";
  const auto num = static_cast<uint64_t>(ranks);
  check_rows(kName, args);
  if (args.rows_per_chunk == 0 || args.rows_per_chunk > device::kMostRowsPerChunk) {
    throw UsageError(fmt::format("{}: chunks of {} rows; 1 to {} are served", kName,
                                 args.rows_per_chunk, device::kMostRowsPerChunk));
  }
  const bool fp8 = args.norm.fp8_scale != nullptr;
  const uint64_t row_bytes = args.row_vectors * 16;
  const uint64_t all = args.tokens * row_bytes;
  const uint64_t own = (args.tokens + num - 1) / num * row_bytes;
  const uint64_t slots = num * ((args.max_tokens + num - 1) / num) * row_bytes;
  const uint64_t signals = num * max_chunks(args, num) * sizeof(uint64_t);
  check_memory(kName, {{"input", args.input, all},
                       {"residual", args.residual, own, 1},
                       {"new_residual", args.new_residual, own, 1},
                       {"output", args.output, fp8 ? all / 2 : all},
                       {"weight", args.norm.weight, row_bytes},
                       {"fp8_scale", args.norm.fp8_scale, fp8 ? sizeof(float) : 0, 0, 4},
                       {"slots", args.slots, slots},
                       {"arrived", args.arrived, signals, 0, 8},
                       {"done", args.done, signals, 0, 8},
                       {"greetings", args.greetings, 3 * num * 16},
                       {"state", args.state, static_cast<uint64_t>(blocks) * 16, 0, 8}});
}

void check_arguments(const device::AllToAllArgs<GpuBlock>& args, int ranks, int blocks) {
  constexpr const char* kName = "all_to_all";
  const auto num = static_cast<uint64_t>(ranks);
  if (blocks != ranks - 1 && blocks != ranks) {
    throw UsageError(fmt::format("{}: {} blocks for {} ranks; a block serves one other rank", kName,
                                 blocks, ranks));
  }
  if (args.row_bytes % 16 != 0) {
    throw UsageError(
        fmt::format("{}: rows of {} bytes; a multiple of 16 is needed", kName, args.row_bytes));
  }
  check_memory(kName, {{"slots", args.slots, 2 * num * args.max_rows * args.row_bytes},
                       {"scale_slots", args.scale_slots,
                        2 * num * args.max_rows * args.scales_per_row * 4, 0, 4},
                       {"signals", args.signals, 2 * num * 8, 0, 8},
                       {"shapes", args.shapes, 2 * num * 8, 0, 8},
                       {"calls", args.calls, num * 8, 0, 8},
                       {"received", args.received, 2 * num * 4, 0, 4}});
}

void check_arguments(const device::DispatchArgs<GpuBlock>& args, int ranks, int blocks) {
  constexpr const char* kName = "dispatch";
  const auto num = static_cast<uint64_t>(ranks);
  const auto grid = static_cast<uint32_t>(blocks);
  check_shape(kName, args.shape, args.tokens, ranks);
  const uint64_t entries = uint64_t{args.shape.max_tokens} * args.shape.top_k;
  const uint64_t slots = 2 * num * args.shape.max_tokens;
  check_memory(
      kName,
      {{"input", args.input, uint64_t{args.tokens} * args.shape.hidden * 2},
       {"slots", args.slots, slots * token_vectors(args.shape) * 16},
       {"scale_slots", args.scale_slots, slots * token_scales(args.shape) * 4, 0, 4},
       {"entry_slots", args.entry_slots, 2 * num * entries * 16},
       {"counts", args.counts, 2 * num * count_words(args.shape, static_cast<uint32_t>(ranks)) * 4,
        0, 4},
       {"parts", args.parts, 2 * device::part_records(static_cast<uint32_t>(ranks), grid) * 8, 0,
        8},
       {"signals", args.signals, device::expert_signals(static_cast<uint32_t>(ranks), grid) * 8, 0,
        8},
       {"token_slots", args.token_slots, args.shape.max_tokens * num * 4, 0, 4},
       {"entry_rows", args.entry_rows, num * entries * 4, 0, 4},
       {"entry_weights", args.entry_weights, num * entries * 4, 0, 4},
       {"rows", args.rows, args.shape.max_rows * token_vectors(args.shape) * 16},
       {"row_scales", args.row_scales, args.shape.max_rows * token_scales(args.shape) * 4, 0, 4},
       {"problems", args.problems, device::kProblems * 4, 0, 4},
       {"calls", args.calls, uint64_t{grid} * 8, 0, 8}});
}

void check_arguments(const device::CombineArgs<GpuBlock>& args, int ranks, int blocks) {
  constexpr const char* kName = "combine";
  const auto num = static_cast<uint64_t>(ranks);
  const auto grid = static_cast<uint32_t>(blocks);
  check_shape(kName, args.shape, args.tokens, ranks);
  const uint64_t token_bytes = uint64_t{args.shape.hidden} * 2;
  check_memory(kName, {{"rows", args.rows, args.shape.max_rows * token_bytes},
                       {"slots", args.slots, 2 * num * args.shape.max_tokens * token_bytes},
                       {"signals", args.signals,
                        device::expert_signals(static_cast<uint32_t>(ranks), grid) * 8, 0, 8},
                       {"output", args.output, args.tokens * token_bytes},
                       {"calls", args.calls, uint64_t{grid} * 8, 0, 8}});
}

void check_arguments(const device::AddNormArgs<GpuBlock>& args, int, int) {
  constexpr const char* kName = "add_norm";
  check_most(kName, "rows", args.rows, args.row_vectors);
  check_fp8_row(kName, args.norm, args.row_vectors);
  const bool fp8 = args.norm.fp8_scale != nullptr;
  const uint64_t all = args.rows * args.row_vectors * 16;
  check_memory(kName, {{"input", args.input, all},
                       {"residual", args.residual, all, 1},
                       {"new_residual", args.new_residual, all, 1},
                       {"output", args.output, fp8 ? all / 2 : all},
                       {"weight", args.norm.weight, args.row_vectors * 16},
                       {"fp8_scale", args.norm.fp8_scale, fp8 ? sizeof(float) : 0, 0, 4}});
}

void check_arguments(const device::GatherArgs<GpuBlock>& args, int ranks, int blocks) {
  constexpr const char* kName = "push_gather";
  const auto num = static_cast<uint64_t>(ranks);
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
                    tiles.num_tiles, ranks, tiles.tiles_per_rank));
  }
  const uint64_t signals = check_signals(kName, tiles);
  // The last rank has fewest rows: what is missing to whole tiles. Tables are not seen from here.
  const uint64_t before = tiles.tile_rows * tiles.tiles_per_rank * (num - 1);
  const uint64_t least =
      tiles.low != nullptr || before >= tiles.num_rows ? 0 : tiles.num_rows - before;
  check_memory(kName, {{"shard", args.shard, least * args.row_bytes},
                       {"gathered", args.gathered, tiles.num_rows * args.row_bytes},
                       {"signals", args.channel.signals, signals * 8, 0, 8},
                       {"epoch", args.channel.epoch, sizeof(uint64_t), 0, 8},
                       {"greetings", args.greetings, 3 * num * 16},
                       {"state", args.state, 2 * static_cast<uint64_t>(blocks) * 8, 0, 8}});
}

void check_arguments(const device::SlotReduceArgs<GpuBlock>& args, int ranks, int blocks) {
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
                    kName, ranks));
  }
  const uint64_t signals = check_signals(kName, channel.producer);
  const uint64_t all = args.rows * args.row_vectors * 16;
  check_memory(kName, {{"slots", args.slots, static_cast<uint64_t>(ranks) * all},
                       {"output", args.output, all},
                       {"signals", channel.signals, signals * 8, 0, 8},
                       {"epoch", channel.epoch, sizeof(uint64_t), 0, 8},
                       {"greetings", args.greetings, 3 * static_cast<uint64_t>(ranks) * 16},
                       {"state", args.state, 2 * static_cast<uint64_t>(blocks) * 8, 0, 8}});
}

}  // namespace stretto::cuda
