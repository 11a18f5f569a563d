#include "tables/choice_limits.h"

#include <fmt/format.h>

#include <algorithm>

#include "plan/tile_task.h"
#include "tables/routed_kinds.h"

namespace stretto::cuda {

void ChoiceLimits::look_at(const InstrRef& at, LimitList& limits) const {
  const std::vector<Instr>& instrs = plan_.lanes[at.lane].instrs;
  const Instr& instr = instrs[at.pos];
  const auto find = [&](std::span<const Region> regions) {
    return std::find_if(regions.begin(), regions.end(), [&](const Region& region) {
      return is_by_choice(plan_.buffers[region.buffer]);
    });
  };
  const std::span<const Region> reads = plan_.reads(instr), writes = plan_.writes(instr);
  if (const auto read = find(reads); read != reads.end()) {
    limits.add(fmt::format("GPUs hand over the rows of {} by choice, so no task reads them: take "
                           "an operator that has them as an output alone",
                           plan_.buffers[read->buffer].name),
               at);
  }
  const auto written = find(writes);
  if (written == writes.end()) return;
  const FollowedTile* const tile = sums_.followed_at(at.lane, at.pos);
  const Instr& product = tile != nullptr ? instrs[tile->product] : instr;
  const bool is_tile = is_routed_product(product.op) && (tile == nullptr || at.pos == tile->last);
  const bool is_own = writes.size() == 1 && written->rank == plan_.lanes[at.lane].rank;
  const std::string& name = plan_.buffers[written->buffer].name;
  const bool is_permute = stores_by_choice(instr.op) && tile == nullptr;
  const bool has_tables = is_permute ? rows_.of_permuted(instr).has_value()
                                     : is_tile && rows_.of(product, *written).has_value();
  if (!is_own || !has_tables) {
    limits.add(fmt::format("GPUs hand over the rows of {} by choice: each is of a tile or a "
                           "permute that stores nothing else, of entries whose tables are of "
                           "one partition",
                           name),
               at);
  } else if (written->col0 % 8 != 0 || written->cols() % 8 != 0) {
    limits.add(fmt::format("the rows of {} are stored by choice in 8 columns at a time: take "
                           "columns and tiles that are a multiple of 8",
                           name),
               at);
  }
}

}  // namespace stretto::cuda
