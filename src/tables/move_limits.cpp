#include "tables/move_limits.h"

#include <fmt/format.h>

#include <algorithm>

#include "plan/normed_rows.h"
#include "plan/tile_task.h"
#include "tables/routed_kinds.h"
#include "tasks/shapes.h"

namespace stretto::cuda {
namespace {

// Kernels count them, and a little further, in 32 bits.
std::string why_too_many_elements(const Plan& plan, const Instr& move) {
  const int64_t rows = plan.reads(move)[0].rows();
  if (rows * plan.writes(move)[0].cols() <= INT32_MAX) return {};
  return fmt::format(
      "a block moves at most {} elements at once: take more comm-sms or granularity=tile",
      INT32_MAX);
}

// What a mover reads is of one type, and so is what it writes.
std::string why_of_several_types(const Plan& plan, const Instr& move) {
  const auto is_of_one = [&](std::span<const Region> regions) {
    return std::all_of(regions.begin(), regions.end(), [&](const Region& region) {
      return plan.buffers[region.buffer].dtype == plan.buffers[regions[0].buffer].dtype;
    });
  };
  if (is_of_one(plan.reads(move)) && is_of_one(plan.writes(move))) return {};
  return "a mover reads one type and writes one type";
}

// Tiles are looked up by their number, and loaded 16 bytes at a time.
std::string why_no_restore(const Plan& plan, const Instr& restore) {
  const auto reads = plan.reads(restore);
  const auto tiles = reads.first(tasks::tiles_beside(reads, plan.writes(restore)[0].cols()));
  const bool any_odd = std::any_of(tiles.begin(), tiles.end(),
                                   [](const Region& tile) { return tile.cols() % 8 != 0; });
  if (any_odd) return "rows are restored from tiles of multiples of 8 columns: take such a tile";
  const int32_t wide = tiles[0].cols();
  const bool are_alike = tiles.back().cols() <= wide &&
                         std::all_of(tiles.begin(), tiles.end() - 1,
                                     [&](const Region& tile) { return tile.cols() == wide; });
  if (are_alike && wide <= UINT16_MAX) return {};
  return fmt::format(
      "rows are restored from tiles of one width, at most {}, but for the last, which may have "
      "less",
      UINT16_MAX);
}

}  // namespace

void MoveLimits::look_at(const InstrRef& at, bool by_mover, LimitList& limits) const {
  const Instr& instr = plan_.lanes[at.lane].instrs[at.pos];
  const auto add = [&](std::string why) {
    if (!why.empty()) limits.add(std::move(why), at);
  };
  if (instr.kind() == nullptr) return;
  const KernelKind kernel = instr.kind()->kernels.by;
  const bool restores = kernel == KernelKind::tiles;
  const bool is_elementwise = kernel == KernelKind::elements || restores;
  // What follows a product is of a tile, unless a mover does it.
  if (is_elementwise && (by_mover || !follows_product(instr.op))) {
    add(why_too_many_elements(plan_, instr));
  }
  if (is_elementwise && by_mover) add(why_of_several_types(plan_, instr));
  if (kernel == KernelKind::norm) add(why_no_norm(plan_, {nullptr, &instr, instr.attribute()}));
  if (restores) add(why_no_restore(plan_, instr));
  if (restores && has_tables_ && rows_normed_at(plan_.lanes[at.lane], at.pos).norm == nullptr) {
    add("beside rows that tables name, rows are restored as they are normed: take split=1");
  }
  if (has_tables_ && is_routed_move(instr.op)) add(why_no_routed_task(plan_, instr));
}

}  // namespace stretto::cuda
