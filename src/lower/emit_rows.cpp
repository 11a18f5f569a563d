// Stages over rows: every lane takes a block of the rank's rows through all stages of the
// segment, the last of which may send it on to all ranks. Where the lanes of a product's tiles take
// the rows behind these, each has some that are whole early and some that are late.
#include "lower/emit_rows.h"

#include <algorithm>
#include <optional>

#include "lower/edge_row.h"
#include "lower/emitter.h"
#include "lower/opcode_of.h"
#include "lower/rect.h"
#include "lower/residual_sums.h"
#include "lower/restored_rows.h"
#include "lower/row_blocks.h"
#include "lower/rows_in_turn.h"
#include "lower/sent_rows.h"
#include "lower/slot_places.h"
#include "schedule/rows_with_tiles.h"

namespace stretto {
namespace {

class RowStages {
 public:
  RowStages(Lowering& state, const PartLowering& part, const OperatorSegment& segment,
            bool by_movers)
      : state_(state),
        by_movers_(by_movers),
        part_(part),
        op_(part.rows.op),
        segment_(segment),
        sent_(gather_by_stage(state, part, segment) != nullptr ? segment.result : -1),
        behind_tiles_(product_with_rows(state, part, segment)),
        packed_(restored_from(state, part, segment)),
        emit_(state, state.lanes, part) {
    if (behind_tiles_ != nullptr && sums_with_rows(*behind_tiles_)) slots_.emplace(*behind_tiles_);
  }

  void emit() {
    for (int rank = 0; rank < op_.ranks; ++rank) {
      for_each_block(rank, [&](uint32_t lane, Rect rows) {
        if (packed_ != nullptr) return emit_of_tiles(rank, lane, rows);
        if (slots_ && !behind_tiles_->residual) sum_slots(rank, lane, rows);
        for (const int id : segment_.stages) emit_stage(op_.stage(id), rank, lane, rows);
      });
    }
  }

 private:
  uint16_t buffer_of(int tensor) const {
    const Tensor& of = op_.tensor(tensor);
    return of.stage >= 0 ? part_.results[static_cast<size_t>(tensor)]
                         : *state_.plan.find_buffer(of.name);
  }
  const Tensor& worked_on() const { return op_.tensor(op_.stage(segment_.stages[0]).out); }
  Held held() const { return worked_on().held; }

  // Blocks of the rows that a rank has, counted from its first: as many as there are lanes.
  template <typename Visit>
  void for_each_block(int rank, const Visit& visit) {
    if (behind_tiles_ != nullptr) {
      for (const RowsOfLane& rows : rows_in_turn(*behind_tiles_, rank)) {
        visit(state_.lanes.compute_lane(rank, rows.lane),
              Rect{rows.row0, rows.row1, 0, static_cast<int32_t>(worked_on().cols)});
      }
      return;
    }
    for_each_row_block(state_, op_, worked_on(), by_movers_, rank, visit);
  }

  // The rows of an operand: those of a rank that has all, or its team's, begin where its block
  // does.
  Region operand(int tensor, int rank, Rect rows) const {
    const uint16_t buffer = buffer_of(tensor);
    const Tensor& of = op_.tensor(tensor);
    const bool is_sharded = state_.plan.buffers[buffer].sharded_rows > 0;
    if (of.rows == 1 && worked_on().rows != 1) {  // one row for all
      rows.row0 = 0;
      rows.row1 = 1;
    } else if (held() == Held::rows && !is_sharded) {
      const int64_t first = RowShards{of.rows, op_.ranks}.begin(rank);
      rows = rows.moved(static_cast<int32_t>(of.deals_rows ? first % op_.team_rows(of) : first));
    }
    if (held() != Held::cols) rows.col1 = static_cast<int32_t>(of.cols);
    if (held() == Held::cols && state_.plan.buffers[buffer].cols != rows.col1) {
      rows.col0 = rank % op_.team_ranks(worked_on()) * rows.col1;
      rows.col1 += rows.col0;
    }
    return region_of(rows, buffer, rank);
  }

  void emit_stage(const Stage& stage, int rank, uint32_t lane, Rect rows) {
    if (const SegmentLowering* const product = summed_by(state_, part_, stage.out)) {
      if (slots_) return sum_slots(rank, lane, rows);
      if (!product->residual->is_handed_over) return;
      emit_.read(operand(product->part.result, rank, rows));
    } else {
      for (const int in : stage.in) emit_.read(operand(in, rank, rows));
    }
    if (held() != Held::cols) rows.col1 = static_cast<int32_t>(op_.tensor(stage.out).cols);
    if (stage.out == sent_) {
      write_to_callers(state_, emit_, op_.tensor(segment_.result), rank, rows);
    } else {
      emit_.write(region_of(rows, buffer_of(stage.out), rank));
    }
    emit_.stage(lane, stage);
  }

  // Rows of which each tile has a part: those of one row of tiles after the other.
  void emit_of_tiles(int rank, uint32_t lane, const Rect& rows) {
    const TileGrid& grid = packed_->grid;
    const int owner = packed_->ranks_own_rows() ? rank % packed_->op.ranks : 0;  // in its team
    const auto begin = static_cast<int32_t>(packed_->shards.begin(owner));
    for (Rect left = rows; !left.empty(); left.row0 = left.row1, left.row1 = rows.row1) {
      const int32_t tile_row = grid.row_at(begin + left.row0);
      const TileRow& tiles = grid.row(tile_row);
      left.row1 = std::min(left.row1, tiles.row1 - begin);
      for (int32_t col = 0; col < grid.cols(); ++col) {
        emit_.read(packed_sums(*packed_, rank, tile_row * grid.cols() + col,
                               begin + left.row0 - tiles.row0, begin + left.row1 - tiles.row0));
      }
      const RestoredRows& restored = *packed_->restored;
      if (restored.residual >= 0) emit_.read(operand(restored.residual, rank, left));
      emit_.write(region_of(left, buffer_of(restored.sum), rank));
      emit_.task(lane, Opcode::restore);
      for (const int id : segment_.stages) {
        const Stage& stage = op_.stage(id);
        if (stage.out != restored.sum) emit_stage(stage, rank, lane, left);
      }
    }
  }

  // What every rank has made of these rows, and the residual where they take one on.
  void sum_slots(int rank, uint32_t lane, const Rect& rows) {
    const SegmentLowering& product = *behind_tiles_;
    for (int source = 0; source < op_.ranks; ++source) {
      emit_.read(slots_->slot(product.pieces.all[0], rows, rank, source));
    }
    if (product.residual) emit_.read(operand(product.residual->residual, rank, rows));
    emit_.write(region_of(rows, product.buffers.out, rank));
    emit_.task(lane, Opcode::reduce);
  }

  Lowering& state_;
  const bool by_movers_;
  const PartLowering& part_;
  const Operator& op_;
  const OperatorSegment& segment_;
  const int sent_;  // the tensor whose rows go to all ranks as they are made; -1: none
  const SegmentLowering* const behind_tiles_;  // whose lanes take the rows; null: a kernel does
  const SegmentLowering* const packed_;        // whose tiles the rows are restored from; null: none
  std::optional<SlotPlaces> slots_;            // where the rows' lanes make the sums too
  Emitter emit_;
};

}  // namespace

bool sums_with_rows(const SegmentLowering& product) {
  return product.schedule.reduction == Reduction::one_shot;
}

const SegmentLowering* product_with_rows(const Lowering& state, const PartLowering& part,
                                         const OperatorSegment& segment) {
  if (!takes_rows_with_tiles(state.schedule, segment)) return nullptr;
  const OperatorSegment* const before = &segment - 1;  // legal() has seen to it
  const auto found = std::find_if(state.products.begin(), state.products.end(),
                                  [&](const SegmentLowering& product) {
                                    return &product.of_rows == &part && &product.part == before;
                                  });
  return &*found;
}

AfterTiles emit_rows(Lowering& state, const PartLowering& part, const OperatorSegment& segment,
                     bool by_movers) {
  if (segment.is_edge()) {
    const EdgeRow& row = row_of(segment.edge);
    STRETTO_ASSERT(row.emit_output != nullptr, "an edge that serves callers has tasks for it");
    return row.emit_output(state, part, segment, by_movers);
  }
  RowStages(state, part, segment, by_movers).emit();
  return {};
}

}  // namespace stretto
