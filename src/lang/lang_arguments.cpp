#include "lang/lang_arguments.h"

#include <fmt/format.h>

#include <algorithm>

#include "lang/argument_checks.h"
#include "stretto/error.h"

namespace stretto::cuda {
namespace {

using device::GpuBlock;

void check_fp8_row(const char* kernel, const device::NormArgs<GpuBlock>& norm,
                   uint64_t row_vectors) {
  if (norm.fp8_scale == nullptr || row_vectors % 2 == 0) return;
  throw UsageError(
      fmt::format("{}: {} vectors a row; fp8 output needs an even number", kernel, row_vectors));
}

// What kernels that norm rows have in common.
template <class Args>
void check_rows(const char* kernel, const Args& args) {
  if (args.tokens > args.max_tokens) {
    throw UsageError(
        fmt::format("{}: {} tokens, but max_tokens is {}", kernel, args.tokens, args.max_tokens));
  }
  check_most(kernel, "tokens", args.max_tokens, args.row_vectors);
  check_fp8_row(kernel, args.norm, args.row_vectors);
}

// These kernels count vectors in 32 bits.
void check_vectors(const char* kernel, uint64_t most) {
  if (most <= kMost) return;
  throw UsageError(fmt::format("{}: {} vectors at the most; {} are served", kernel, most, kMost));
}

// Of the kernels that take the same arguments, two-shot needs the fewest slots.
uint64_t least_slots(uint64_t ranks, uint64_t most) {
  return 4 * ranks * ((most + ranks - 1) / ranks);
}

// `kept`: rows of the residual.
void check_norm(const char* kernel, const device::AllReduceNormArgs<GpuBlock>& args, uint64_t kept,
                const LangCall& call) {
  const auto num = static_cast<uint64_t>(call.ranks);
  check_rows(kernel, args);
  check_vectors(kernel, args.max_tokens * args.row_vectors);
  const bool fp8 = args.norm.fp8_scale != nullptr;
  const uint64_t row_bytes = args.row_vectors * 16;
  const uint64_t all = args.tokens * row_bytes;
  check_memory(kernel,
               {{"input", args.input, all},
                {"residual", args.residual, kept * row_bytes, 1},
                {"new_residual", args.new_residual, kept * row_bytes, 1},
                {"output", args.output, fp8 ? all / 2 : all},
                {"weight", args.norm.weight, row_bytes},
                {"fp8_scale", args.norm.fp8_scale, fp8 ? sizeof(float) : 0, 0, 4},
                symmetric({"slots", args.slots, least_slots(num, args.max_tokens) * row_bytes}),
                symmetric({"greetings", args.greetings, 3 * num * 16}),
                {"state", args.state, static_cast<uint64_t>(call.blocks) * 8, 0, 8}},
               call.heap);
}

// Where memory tells a call's rows they may be as many as it says there are at the most.
uint64_t most_rows(const char* kernel, const device::RowsOfCall<GpuBlock>& rows) {
  if (rows.most >= 0) return static_cast<uint64_t>(rows.most);
  throw UsageError(fmt::format("{}: at most {} rows; 0 is the least", kernel, rows.most));
}

Memory rows_in_memory(const device::RowsOfCall<GpuBlock>& rows) {
  return {"rows", rows.at, rows.are_told() ? sizeof(int32_t) : 0, 0, 4};
}

}  // namespace

void check_arguments(const device::AllReduceArgs<GpuBlock>& args, const LangCall& call) {
  constexpr const char* kName = "all_reduce";
  const auto num = static_cast<uint64_t>(call.ranks);
  const uint64_t vectors =
      args.rows.are_told() ? most_rows(kName, args.rows) * args.rows.row_vectors : args.num_vectors;
  if (vectors > args.max_vectors) {
    throw UsageError(
        fmt::format("{}: {} vectors, but max_vectors is {}", kName, vectors, args.max_vectors));
  }
  check_vectors(kName, args.max_vectors);
  check_memory(kName,
               {{"input", args.input, vectors * 16, 1},
                {"output", args.output, vectors * 16, 1},
                rows_in_memory(args.rows),
                symmetric({"slots", args.slots, least_slots(num, args.max_vectors) * 16}),
                symmetric({"greetings", args.greetings, 3 * num * 16}),
                {"state", args.state, static_cast<uint64_t>(call.blocks) * 8, 0, 8}},
               call.heap);
}

void check_arguments(const device::PartsArgs<GpuBlock>& told, const LangCall& call) {
  constexpr const char* kName = "gather_scatter";
  const auto num = static_cast<uint64_t>(call.ranks);
  device::PartsArgs<GpuBlock> args = told;
  if (args.rows.are_told()) {
    const uint64_t rows = most_rows(kName, args.rows);
    args.part_vectors = (rows + num - 1) / num * args.rows.row_vectors;
    args.num_vectors = rows * args.rows.row_vectors;
  }
  if (args.part_vectors > args.max_part_vectors) {
    throw UsageError(fmt::format("{}: parts of {} vectors, but max_part_vectors is {}", kName,
                                 args.part_vectors, args.max_part_vectors));
  }
  if (args.max_part_vectors > device::kMostPartVectors) {
    throw UsageError(fmt::format("{}: parts of {} vectors at the most; {} are served", kName,
                                 args.max_part_vectors, device::kMostPartVectors));
  }
  check_vectors(kName, num * args.max_part_vectors);
  if (args.num_vectors > num * args.part_vectors) {
    throw UsageError(fmt::format("{}: {} vectors, but {} parts of {} have {}", kName,
                                 args.num_vectors, call.ranks, args.part_vectors,
                                 num * args.part_vectors));
  }
  // Which of input and output is one part depends on the kernel, and how long that is on the rank.
  const device::Parts parts{static_cast<uint32_t>(args.part_vectors),
                            static_cast<uint32_t>(args.num_vectors)};
  const uint64_t least = parts.size_of(call.ranks - 1) * uint64_t{16};
  check_memory(kName,
               {{"input", args.input, least},
                {"output", args.output, least},
                rows_in_memory(args.rows),
                symmetric({"slots", args.slots, 2 * num * args.max_part_vectors * 16}),
                symmetric({"greetings", args.greetings, 3 * num * 16}),
                {"state", args.state, static_cast<uint64_t>(call.blocks) * 8, 0, 8}},
               call.heap);
  if (args.num_vectors > 0 && args.input == args.output) {
    throw UsageError(fmt::format("{}: 'input' is 'output'; give each memory of its own", kName));
  }
}

void check_arguments(const device::AllReduceNormArgs<GpuBlock>& args, const LangCall& call) {
  check_norm("all_reduce_norm", args, args.tokens, call);
}

void check_arguments(const device::OwnRowsNormArgs<GpuBlock>& args, const LangCall& call) {
  const auto num = static_cast<uint64_t>(call.ranks);
  check_norm("all_reduce_norm_own_rows", args, (args.tokens + num - 1) / num, call);
}

void check_arguments(const device::ScatterNormGatherArgs<GpuBlock>& args, const LangCall& call) {
  constexpr const char* kName = "scatter_norm_gather";
  const auto num = static_cast<uint64_t>(call.ranks);
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
  check_memory(kName,
               {{"input", args.input, all},
                {"residual", args.residual, own, 1},
                {"new_residual", args.new_residual, own, 1},
                symmetric({"output", args.output, fp8 ? all / 2 : all}),
                {"weight", args.norm.weight, row_bytes},
                {"fp8_scale", args.norm.fp8_scale, fp8 ? sizeof(float) : 0, 0, 4},
                symmetric({"slots", args.slots, slots}),
                symmetric({"arrived", args.arrived, signals, 0, 8}),
                symmetric({"done", args.done, signals, 0, 8}),
                symmetric({"greetings", args.greetings, 3 * num * 16}),
                {"state", args.state, static_cast<uint64_t>(call.blocks) * 8, 0, 8}},
               call.heap);
}

void check_arguments(const device::AllToAllArgs<GpuBlock>& args, const LangCall& call) {
  constexpr const char* kName = "all_to_all";
  const auto num = static_cast<uint64_t>(call.ranks);
  if (call.blocks != call.ranks - 1 && call.blocks != call.ranks) {
    throw UsageError(fmt::format("{}: {} blocks for {} ranks; a block serves one other rank", kName,
                                 call.blocks, call.ranks));
  }
  if (args.row_bytes % 16 != 0) {
    throw UsageError(
        fmt::format("{}: rows of {} bytes; a multiple of 16 is needed", kName, args.row_bytes));
  }
  const auto check = [&](const char* what, uint64_t number, uint64_t most) {
    if (number <= most) return;
    throw UsageError(fmt::format("{}: {} is {}; at most {} is served", kName, what, number, most));
  };
  check("row_bytes", args.row_bytes, device::kMostRowBytes);
  check("scales_per_row", args.scales_per_row, device::kMostRows);
  check("max_rows", args.max_rows, device::kMostRows);
  const uint64_t slots = 2 * num * args.max_rows;
  const uint64_t row = std::min<uint64_t>(args.max_rows, 1);  // how many there are is not known
  check_memory(kName,
               {{"tokens", args.tokens, row * args.row_bytes},
                {"scales", args.scales, row * args.scales_per_row * 4, 0, 4},
                {"offsets", args.offsets, (num + 1) * 4, 0, 4},
                symmetric({"slots", args.slots, slots * args.row_bytes}),
                symmetric({"scale_slots", args.scale_slots, slots * args.scales_per_row * 4, 0, 4}),
                symmetric({"signals", args.signals, device::all_to_all_signals(num) * 8, 0, 8}),
                {"calls", args.calls, num * 8, 0, 8},
                {"received", args.received, 2 * num * 4, 0, 4},
                {"refused", args.refused, 4, 0, 4}},
               call.heap);
}

void check_arguments(const device::CopyRowsArgs<GpuBlock>& args, const LangCall& call) {
  constexpr const char* kName = "copy_rows";
  if (!args.rows.are_told()) throw UsageError(fmt::format("{}: 'rows' is null", kName));
  const uint64_t bytes = most_rows(kName, args.rows) * args.rows.row_vectors * 16;
  check_memory(
      kName,
      {{"input", args.input, bytes}, {"output", args.output, bytes}, rows_in_memory(args.rows)},
      call.heap);
}

void check_arguments(const device::AddNormArgs<GpuBlock>& args, const LangCall& call) {
  constexpr const char* kName = "add_norm";
  check_most(kName, "rows", args.rows, args.row_vectors);
  check_fp8_row(kName, args.norm, args.row_vectors);
  const bool fp8 = args.norm.fp8_scale != nullptr;
  const uint64_t all = args.rows * args.row_vectors * 16;
  check_memory(kName,
               {{"input", args.input, all},
                {"residual", args.residual, all, 1},
                {"new_residual", args.new_residual, all, 1},
                {"output", args.output, fp8 ? all / 2 : all},
                {"weight", args.norm.weight, args.row_vectors * 16},
                {"fp8_scale", args.norm.fp8_scale, fp8 ? sizeof(float) : 0, 0, 4}},
               call.heap);
}

}  // namespace stretto::cuda
