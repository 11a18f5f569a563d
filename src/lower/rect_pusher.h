// How movers push what a rank has of A to those who need it.
#pragma once

#include <span>

#include "lower/emit_patterns.h"

namespace stretto {

class RectPusher {
 public:
  RectPusher(const SegmentLowering& state, Emitter& emit)
      : state_(state), emit_(emit), comm_(state.op.ranks, std::max(1, state.lanes.comm)) {}

  // Pushes `rect` of a buffer that each of `to` has: what lies `down` rows and `right` columns from
  // there in the sender's A. One load stores to all of them.
  void push(int sender, const Rect& rect, int32_t down, int32_t right, uint16_t buffer,
            std::span<const int> to, int32_t tile) {
    const bool by_blocks = state_.schedule.mover == Mover::comm_blocks;
    // All blocks share it, so that the first rows arrive soon: by rows while there are enough of
    // them, for rows are contiguous, else in pieces of 2 KB of a row.
    const int blocks = by_blocks ? state_.lanes.comm : 1;
    const int rows = std::min(blocks, rect.rows());
    const auto unit = static_cast<int32_t>(2048 / num_bytes(state_.op.dtype));
    for (const Rect& part : split(rect, rows, blocks / rows, unit)) {
      emit_.read(region_of(part.moved(down, right), state_.buffers.a, sender));
      for (const int rank : to) emit_.write(region_of(part, buffer, rank));
      emit_.task(by_blocks ? state_.lanes.comm_lane(sender, comm_.next(sender))
                           : copy_lane(state_, sender, to[0]),
                 Opcode::copy, tile);
    }
  }

 private:
  const SegmentLowering& state_;
  Emitter& emit_;
  Dealer comm_;
};

}  // namespace stretto
