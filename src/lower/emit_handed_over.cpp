// What a product has gathered, for the caller: each rank copies it from where others have sent it,
// for these may not write to the caller's tensor before the rank's run has begun.
#include <algorithm>
#include <vector>

#include "lower/emit_rows.h"
#include "lower/rect.h"

namespace stretto {
namespace {

// Rows of a buffer, and where the caller has them.
struct Run {
  uint16_t buffer;
  Rect rows;
  int32_t down;  // from there to the caller's
};

class HandOver {
 public:
  HandOver(Lowering& state, const PartLowering& part, const SegmentLowering& product,
           const OperatorSegment& segment)
      : state_(state),
        product_(product),
        out_(part.results[static_cast<size_t>(segment.result)]),
        cols_(static_cast<int32_t>(product.op.k)),
        emit_(state, state.lanes, part) {}

  void emit() {
    const bool by_movers = movers_hand_over(product_);
    const LaneTable& all = state_.lanes;
    const int lanes = by_movers ? product_.lanes.comm : all.compute;
    Dealer dealer(product_.op.ranks, lanes);
    for (int rank = 0; rank < product_.op.ranks; ++rank) {
      for (const Run& run : runs_of(rank)) {
        for (const Rect& rows : parts_of(run.rows, lanes, by_movers)) {
          emit_.read(region_of(rows, run.buffer, rank));
          emit_.write(region_of(rows.moved(run.down), out_, rank));
          const int lane = dealer.next(rank);
          emit_.task(by_movers ? all.comm_lane(rank, lane) : all.compute_lane(rank, lane),
                     Opcode::copy);
        }
      }
    }
  }

 private:
  // Own rows first, for nobody waits for these; then others' in the order in which they come.
  std::vector<Run> runs_of(int rank) const {
    if (product_.by_nccl()) return stored_runs();
    std::vector<Run> runs;
    const auto own = static_cast<int32_t>(product_.shards.begin(rank));
    const auto end = static_cast<int32_t>(product_.shards.end(rank));
    if (own < end) runs.push_back({product_.buffers.a, {0, end - own, 0, cols_}, own});
    if (!product_.pattern.communicates) return runs;
    const Pieces& pieces = product_.pieces;
    for (int32_t index = 0; index < pieces.indices; ++index) {
      for (int i = 1; i < product_.op.ranks; ++i) {
        const int source = (rank + i) % product_.op.ranks;
        const auto first = static_cast<size_t>(pieces.first[static_cast<size_t>(source)]);
        const auto last = static_cast<size_t>(pieces.first[static_cast<size_t>(source) + 1]);
        for (size_t p = first; p < last; ++p) {
          const Piece& piece = pieces.all[p];
          if (piece.index == index) runs.push_back({product_.buffers.gathered, piece.rect, 0});
        }
      }
    }
    return runs;
  }

  // NCCL leaves them chunk by chunk.
  std::vector<Run> stored_runs() const {
    std::vector<Run> runs;
    for (const RowSegment& one : product_.layout.segments) {
      runs.push_back(
          {product_.buffers.gathered, {one.row0, one.row1, 0, cols_}, one.matrix_row - one.row0});
    }
    return runs;
  }

  // Movers share a piece as they have shared it when it was sent.
  std::vector<Rect> parts_of(const Rect& rows, int lanes, bool by_movers) const {
    const int64_t share = int64_t{lanes} * rows.rows() / product_.op.m;
    const auto count = by_movers ? lanes : static_cast<int>(std::max<int64_t>(1, share));
    const int down = std::min(count, rows.rows());
    const auto unit = static_cast<int32_t>(2048 / num_bytes(product_.op.dtype));
    return split(rows, down, by_movers ? lanes / down : 1, unit);
  }

  Lowering& state_;
  const SegmentLowering& product_;
  const uint16_t out_;
  const int32_t cols_;
  Emitter emit_;
};

}  // namespace

const SegmentLowering* gathers_for(const Lowering& state, const PartLowering& part,
                                   const OperatorSegment& segment) {
  const bool is_handed = !segment.product && !segment.is_edge() &&
                         state.op.stage(segment.stages[0]).kind == StageKind::gather;
  if (!is_handed) return nullptr;
  const auto found = std::find_if(
      state.products.begin(), state.products.end(), [&](const SegmentLowering& product) {
        return &product.of_rows == &part && product.op.gathers() && product.op.teams == 1 &&
               product.part.input == segment.input;
      });
  return &*found;
}

bool movers_hand_over(const SegmentLowering& product) {
  return product.pattern.pushes_rows() && product.lanes.comm > 0;
}

void hand_over_rows(Lowering& state, const PartLowering& part, const SegmentLowering& product,
                    const OperatorSegment& segment) {
  HandOver(state, part, product, segment).emit();
}

}  // namespace stretto
