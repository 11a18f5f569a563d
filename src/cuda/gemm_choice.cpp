#include "cuda/gemm_choice.h"

#include <fmt/format.h>

#include <algorithm>

#include "stretto/error.h"

namespace stretto::cuda {

using device::GemmConfig;
using device::OutputType;

namespace {

OutputType output_type(DType dtype) {
  return dtype == DType::bf16   ? OutputType::bf16
         : dtype == DType::fp16 ? OutputType::fp16
                                : OutputType::fp32;
}

}  // namespace

std::vector<RowPart> row_parts(const Plan& plan, const Instr& gemm) {
  const auto reads = plan.reads(gemm);
  std::vector<RowPart> parts;
  int32_t row = 0;
  for (const Region& a : reads.first(reads.size() - 1)) {
    parts.push_back({row, row + a.rows(), &a});
    row += a.rows();
  }
  return parts;
}

std::optional<DType> stored_dtype(const Plan& plan, const TileSums& sums) {
  std::optional<DType> found;
  for (uint32_t lane = 0; lane < plan.lanes.size(); ++lane) {
    for (uint32_t at = 0; at < plan.lanes[lane].instrs.size(); ++at) {
      if (plan.lanes[lane].instrs[at].op != Opcode::gemm) continue;
      const Instr* stored = sums.stored_by(plan, lane, at);
      if (stored == nullptr) continue;
      for (const Region& to : plan.writes(*stored)) {
        const DType dtype = plan.buffers[to.buffer].dtype;
        if (found && *found != dtype) return std::nullopt;
        found = dtype;
      }
    }
  }
  return found;
}

GemmConfig config_for(const Plan& plan, const TileSums& sums, bool serves) {
  int rows = 0, columns = 0;
  bool parts = false;  // some tile is stored from a row on that is not its first
  for (uint32_t lane = 0; lane < plan.lanes.size(); ++lane) {
    for (uint32_t at = 0; at < plan.lanes[lane].instrs.size(); ++at) {
      const Instr& instr = plan.lanes[lane].instrs[at];
      if (instr.op != Opcode::gemm) continue;
      const std::vector<RowPart> tile = row_parts(plan, instr);
      rows = std::max(rows, tile.back().last);
      columns = std::max(columns, plan.reads(instr).back().rows());
      const Instr* stored = sums.stored_by(plan, lane, at);
      if (stored == nullptr) continue;
      for (const Placed& placed : placed_writes(plan, *stored)) {
        for (const RowPart& part : tile) {
          parts = parts || (placed.row > part.first && placed.row < part.last);
        }
      }
    }
  }
  // Parts of a tile need stores of 128 bytes a row.
  if (parts || serves) columns = (columns + 63) / 64 * 64;
  GemmConfig config =
      config_of(plan.op.dtype, stored_dtype(plan, sums).value_or(plan.op.dtype), rows, columns);
  config.serves = serves;
  config.adds = sums.sources();
  config.splits = sums.any_ranges();
  return config;
}

GemmConfig config_of(DType input, DType output, int rows, int columns) {
  // Stores end where the plan's regions end.
  GemmConfig config;
  config.shared = device::Shared::none;
  config.bf16 = input == DType::bf16;
  config.output = output_type(output);
  constexpr int kRows[] = {64, 128, 256};
  constexpr int kColumns[] = {64, 96, 128, 160, 192, 224, 256};
  const auto tall =
      std::find_if(std::begin(kRows), std::end(kRows), [&](int x) { return x >= rows; });
  const auto wide =
      std::find_if(std::begin(kColumns), std::end(kColumns), [&](int x) { return x >= columns; });
  if (tall == std::end(kRows) || wide == std::end(kColumns) || *tall * *wide > 128 * 256) {
    throw UsageError(
        fmt::format("no kernel has tiles of {}x{}: up to 128x256 and 256x128", rows, columns));
  }
  config.tile_m = *tall;
  config.tile_n = *wide;
  config.consumers = config.tile_m >= 128 ? 2 : 1;
  config.stages = 8;
  while (device::layout_of(config).shared_bytes > 227 * 1024) --config.stages;
  return config;
}

}  // namespace stretto::cuda
