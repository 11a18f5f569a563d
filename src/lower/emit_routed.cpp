// Products of routed rows: tokens go to who multiplies them, tables say which rows are whose, tiles
// are of entries, and sums go back to who has the token.
//
// With a partition for each source (granularity=chunk) a rank's tiles take the tokens of one rank
// after another, its own first and then as they arrive; sums leave for the next ranks first.
#include <algorithm>
#include <memory>

#include "lower/edge_row.h"
#include "lower/emit_patterns.h"
#include "lower/opcode_of.h"
#include "lower/routed_emission.h"

namespace stretto {
namespace {

class Routed {
 public:
  Routed(Lowering& state, RoutedLowering& product)
      : of_(state, product), product_(product), blocks_(of_.blocks), sums_(of_) {}

  // Whether there is something to finish().
  bool emit() {
    gather_routed_tokens(of_);
    if (!product_.has_sums()) {
      emit_all_bands();
      if (of_.events) of_.boundaries();
    } else if (sums_.are_sent_at_once()) {
      emit_beside_sums();
      return true;
    } else {
      emit_before_sums();
    }
    return false;
  }
  void finish() { sums_.finish(); }

 private:
  // The buffer that has the product's rows in the order of the partition.
  std::optional<uint16_t> rows_in_order() const {
    if (product_.permuted) return product_.permuted;
    const bool has_them = of_.state.plan.buffers[product_.x.own].partition >= 0;
    return has_them ? std::optional(product_.x.own) : std::nullopt;
  }

  // Of entries [entry, last).
  void emit_tile(int rank, int block, int32_t entry, int32_t last, int tile) {
    const uint32_t lane = of_.compute_lane(rank);
    const Rect cols = product_.cols_of(tile);
    const Rect rows = blocks_.rows_of_entries(entry, last, cols.col0, cols.col1);
    const int32_t number = entry * product_.col_tiles() + tile;
    const auto k = static_cast<int32_t>(product_.op.local_k());
    const auto each = static_cast<int32_t>(product_.op.local_n());
    const std::vector<int>& stages = product_.part.stages;
    const std::optional<uint16_t> in_order = rows_in_order();
    const bool gathers = !in_order;
    for (size_t weight = 0; weight < product_.stacks.size(); ++weight) {
      if (gathers) {
        of_.emit.read(region_of({rows.row0, rows.row1, 0, 1}, blocks_.choices, rank));
      } else {
        of_.emit.read(region_of({rows.row0, rows.row1, 0, k}, *in_order, rank));
      }
      of_.emit.read(region_of({entry, last, 0, 1}, blocks_.experts_of, rank));
      if (gathers) of_.emit.read(of_.rows_to_pick(block, rank));
      const int32_t last_matrix = (blocks_.experts_of_rank(rank) - 1) * each;
      of_.emit.read(
          region_of({cols.col0, last_matrix + cols.col1, 0, k}, product_.stacks[weight], rank));
      of_.emit.write(region_of(rows, product_.kept[weight], rank));
      if (gathers) {
        of_.emit.counted_task(lane, Opcode::gather_gemm, {each, of_.choices_of_row()}, number);
      } else {
        of_.emit.counted_task(lane, Opcode::grouped_gemm, {each}, number);
      }
    }
    for (size_t i = product_.stacks.size(); i < stages.size(); ++i) {
      const Stage& stage = of_.op.stage(stages[i]);
      if (stage.kind == StageKind::weigh) break;
      for (const int in : stage.in) of_.emit.read(operand(in, rows, rank));
      of_.emit.write(region_of(rows, product_.kept[i], rank));
      of_.emit.stage(lane, stage, number);
    }
  }
  // A tile that a stage before has left, or the caller's row.
  Region operand(int tensor, const Rect& rows, int rank) const {
    const std::vector<int>& stages = product_.part.stages;
    for (size_t i = 0; i < stages.size(); ++i) {
      if (of_.op.stage(stages[i]).out == tensor) return region_of(rows, product_.kept[i], rank);
    }
    const uint16_t row = *of_.state.plan.find_buffer(of_.op.tensor(tensor).name);
    const auto own = static_cast<int32_t>(product_.op.local_n());
    const int32_t first = of_.state.plan.buffers[row].cols != own ? rank * own : 0;
    return region_of({0, 1, first + rows.col0, first + rows.col1}, row, rank);
  }

  // Some entries go through all columns before the next ones' turn: so what runs at the same time
  // shares rows and matrices in L2.
  void emit_bands(int rank, int block) {
    constexpr int32_t kRows = 2048;
    std::vector<std::pair<int32_t, int32_t>> band;
    const auto emit_band = [&] {
      for (int tile = 0; tile < product_.col_tiles(); ++tile) {
        for (const auto& [first, last] : band) emit_tile(rank, block, first, last, tile);
      }
      band.clear();
    };
    blocks_.for_each_task(block, [&](int32_t first, int32_t last) {
      band.emplace_back(first, last);
      if (static_cast<int32_t>(band.size()) * blocks_.entry_rows >= kRows) emit_band();
    });
    emit_band();
  }

  void emit_all_bands() {
    const int turns = static_cast<int>(of_.order_of_blocks(0).size());
    if (product_.op.only_moves()) return;
    for (int turn = 0; turn < turns; ++turn) {
      if (turn > 0 && product_.is_block_by_block()) of_.boundaries();
      permute_block(of_, turn);
      for (int rank = 0; rank < of_.ranks; ++rank) {
        emit_bands(rank, of_.order_of_blocks(rank)[static_cast<size_t>(turn)]);
      }
    }
  }

  // Where sums leave meanwhile, columns by columns, so that those of the first tiles do so while
  // others are multiplied.
  void emit_beside_sums() {
    if (product_.op.only_moves()) return sums_.sum_up_all();
    const int turns = static_cast<int>(of_.order_of_blocks(0).size()), tiles = product_.col_tiles();
    for (int turn = 0; turn < turns; ++turn) {
      for (int tile = 0; tile < tiles; ++tile) {
        for (int rank = 0; rank < of_.ranks; ++rank) {
          const int block = of_.order_of_blocks(rank)[static_cast<size_t>(turn)];
          blocks_.for_each_task(block, [&](int32_t first, int32_t last) {
            emit_tile(rank, block, first, last, tile);
          });
        }
        for (int rank = 0; rank < of_.ranks; ++rank) {
          sums_.sum_up(rank, turn, product_.cols_of(tile));
        }
      }
    }
  }
  void emit_before_sums() {
    if (!product_.op.only_moves()) {
      if (of_.events) of_.boundaries();
      emit_all_bands();
      if (of_.events) of_.boundaries();
    }
    if (product_.goes_by_ids()) return combine_by_ids(of_);
    sums_.sum_up_all();
    if (of_.events) of_.boundaries();
    if (product_.sums_by_nccl()) return sums_.reduce_by_nccl();
    if (!product_.adds_terms()) return;
    // Notifies stand at one boundary, waits for peers' at the next.
    if (of_.events) of_.boundaries();
    sums_.finish();
    if (of_.events) of_.boundaries();
  }

  RoutedEmission of_;
  const RoutedLowering& product_;
  const RoutedBlocks& blocks_;
  RoutedSums sums_;
};

}  // namespace

AfterTiles emit_routed(Lowering& state, RoutedLowering& product) {
  if (product.by_ids()) {
    emit_by_ids(state, product);
    return {};
  }
  const auto routed = std::make_shared<Routed>(state, product);
  if (!routed->emit()) return {};
  return {[routed] { routed->finish(); }, {}};
}

// Only rows that choose matrices have these: check_routed() speaks of them, and their tasks are
// RoutedLowering's.
const EdgeRow edges::dispatch{};
const EdgeRow edges::combine{};

}  // namespace stretto
