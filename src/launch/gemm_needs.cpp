#include "launch/gemm_needs.h"

#include <algorithm>

#include "launch/choice_rows.h"
#include "launch/tile_sums.h"
#include "stretto/device/gemm_task.h"
#include "stretto/error.h"

namespace stretto::cuda {
namespace {

class NeedsFinder {
 public:
  NeedsFinder(const Plan& plan, const TileSums& sums) : plan_(plan), sums_(sums) {}

  void look_at(uint32_t lane) {
    const std::vector<Instr>& instrs = plan_.lanes[lane].instrs;
    size_t stretch = 0;
    for (uint32_t at = 0; at < instrs.size(); ++at) {
      if (instrs[at].op == Opcode::boundary) ++stretch;
      if (!is_product(instrs[at].op)) continue;
      if (const std::optional<int> library = plan_.library_at(stretch)) {
        if (found_.size() <= stretch) found_.resize(stretch + 1);
        found_[stretch].needs.library = library;
        found_[stretch].needs.few_rows = plan_.few_rows_at(stretch);
        if (!is_routed_product(instrs[at].op)) continue;
      }
      const FollowedTile* const tile = sums_.followed_at(lane, at);
      if (tile != nullptr && at != tile->begin) continue;  // it is the second product's
      if (found_.size() <= stretch) found_.resize(stretch + 1);
      look_at_tile(lane, at, found_[stretch]);
      look_at_followers(lane, at, tile, found_[stretch]);
    }
  }

  std::vector<GemmNeeds> take() && {
    std::vector<GemmNeeds> needs;
    for (Found& found : found_) {
      found.needs.stored = type_of(found.is_stored_to);
      needs.push_back(found.needs);
    }
    return needs;
  }

 private:
  struct Found {
    GemmNeeds needs;
    std::vector<uint8_t> is_stored_to;  // by buffer
    bool any_tile = false;              // that is stored
  };

  void look_at_followers(uint32_t lane, uint32_t at, const FollowedTile* tile, Found& found) const {
    const Instr& gemm = plan_.lanes[lane].instrs[at];
    const bool is_range = gemm.num_writes != 0 && sums_.of(lane, at).of_ranges == 0 &&
                          sums_.holds_ranges(plan_.writes(gemm)[0].buffer);
    if (is_range) return;
    GemmNeeds& needs = found.needs;
    const bool has_one = tile != nullptr && tile->activation;
    const device::Follower follower =
        has_one ? follower_of(*tile->activation) : device::Follower::none;
    if (!found.any_tile) needs.follower = follower;
    found.any_tile = true;
    needs.follow_alike = needs.follow_alike && needs.follower == follower;
    needs.bias = needs.bias || (tile != nullptr && tile->has_bias());
  }

  void look_at_tile(uint32_t lane, uint32_t at, Found& found) const {
    GemmNeeds& needs = found.needs;
    found.is_stored_to.resize(plan_.buffers.size(), false);
    const std::vector<Instr>& instrs = plan_.lanes[lane].instrs;
    const Instr& gemm = instrs[at];
    const Region* reads = plan_.operands.data() + gemm.first_operand;
    const bool grouped = is_routed_product(gemm.op), gathers = gathers_rows(gemm.op);
    const bool is_first = needs.rows == 0;
    needs.grouped_alike =
        needs.grouped_alike && (is_first || (needs.grouped == grouped && needs.gathers == gathers));
    needs.grouped = grouped;
    needs.gathers = gathers;
    int32_t rows = 0;
    if (grouped) {
      rows = rows_of_entry(plan_, gemm);
      // Boxes of a power of two of rows store what is no multiple of a chunk.
      needs.parts = needs.parts || rows % device::kChunkRows != 0;
    } else {
      for (const Region* a = reads; a + 1 < reads + gemm.num_reads; ++a) rows += a->rows();
    }
    needs.rows = std::max(needs.rows, rows);
    needs.columns = std::max(
        needs.columns, grouped ? plan_.writes(gemm)[0].cols() : reads[gemm.num_reads - 1].rows());
    const auto store = [&](const Region& to, int32_t row) {
      const bool scatters = is_by_choice(plan_.buffers[to.buffer]);
      needs.scatter_alike = needs.scatter_alike && (is_first || needs.scatters == scatters);
      needs.scatters = scatters;
      found.is_stored_to[to.buffer] = true;
      if (grouped || (needs.parts && needs.threes)) return;
      const bool ends_buffer = to.row1 == plan_.buffers[to.buffer].rows_on(to.rank);
      for_each_row_part(plan_, gemm, [&](const RowPart& part) {
        const int32_t begin = std::max(row, part.first) - part.first;
        const int32_t end = std::min(row + to.rows(), part.last) - part.first;
        if (begin >= end) return;
        needs.parts = needs.parts || begin % device::kChunkRows != 0;
        // Maps end with the buffer.
        if (ends_buffer && row + to.rows() <= part.last) return;
        needs.threes = needs.threes || end % 4 == 3;
      });
    };
    sums_.for_each_store(plan_, lane, at, store);
    needs.splits = needs.splits || (gemm.num_writes != 0 &&
                                    sums_.holds_ranges_in_memory(plan_.writes(gemm)[0].buffer));
    const TileSum sum = sums_.of(lane, at);
    needs.phases = needs.phases || (sum.of_ranges != 0 && sum.first != at);
    needs.sources = needs.sources || sum.by_source;
    if (sum.of_ranks == 0) return;
    if (needs.adds == 0) needs.adds = instrs[sum.of_ranks].num_reads - 1;
    if (sum.stores_before()) {
      sums_.for_each_store_of_part(plan_, instrs[sum.of_ranks], sum, store);
    }
  }

  std::optional<DType> type_of(const std::vector<uint8_t>& is_stored_to) const {
    std::optional<DType> type;
    for (size_t i = 0; i < is_stored_to.size(); ++i) {
      if (!is_stored_to[i]) continue;
      if (type && *type != plan_.buffers[i].dtype) return std::nullopt;
      type = plan_.buffers[i].dtype;
    }
    return type;
  }

  const Plan& plan_;
  const TileSums& sums_;
  std::vector<Found> found_;  // by stretch
};

}  // namespace

device::Follower follower_of(Opcode activation) {
  const TaskKind* const kind = kind_of(activation);
  STRETTO_ASSERT(kind != nullptr && kind->kernels.follower != device::Follower::none,
                 "no activation that follows in a GEMM kernel");
  return kind->kernels.follower;
}

std::vector<GemmNeeds> find_needs(const Plan& plan, const TileSums& sums) {
  NeedsFinder finder(plan, sums);
  for (uint32_t lane = 0; lane < plan.lanes.size(); ++lane) finder.look_at(lane);
  return std::move(finder).take();
}

}  // namespace stretto::cuda
