// Pooled look-ups: what the steps of lowering leave for one another.
#pragma once

#include "lower/lanes.h"
#include "schedule/look_up_point.h"
#include "stretto/lower.h"

namespace stretto {

struct LookUpLowering {
  LookUpLowering(const OperatorSegment& one, const Schedule& point, size_t at, size_t rows)
      : part(one), op(*one.product), schedule(point), number(at), of_part(rows) {}

  const OperatorSegment& part;
  const Segment op;
  const Schedule schedule;
  const size_t number;           // of the schedule
  const size_t of_part;          // of the rows
  uint16_t ids = 0, tables = 0;  // buffers of what the caller gives
  uint16_t out = 0;              // of the segment
  uint16_t made = 0;    // a rank's columns of all bags, where another than who looks up sends
  uint16_t landed = 0;  // what peers write; `out` where that is nobody's before
  LaneTable lanes = {};
  int sms_of_others = 0;

  // Every rank has columns of all bags, and needs all of its own.
  bool exchanges() const { return op.ranks > 1 && op.communicates(); }
  bool by_nccl() const { return exchanges() && schedule.mover == Mover::nccl; }
  bool is_staged() const { return exchanges() && schedule.mover != Mover::epilogue; }
  int comm_lanes() const { return exchanges() && !by_nccl() ? schedule.comm_sms : 0; }
  // Copy engines may signal by kernels, which need a place beside blocks that wait.
  int sms_for_others() const {
    const bool by_streams = exchanges() && schedule.mover == Mover::copy_engine;
    return std::max(comm_lanes(), by_streams ? 1 : 0);
  }
  // The rows of who has bags in the end: all of them, where nothing is exchanged.
  RowShards owners() const { return exchanges() ? op.row_shards() : RowShards{op.m, 1}; }

  // Blocks of them, of which the last may be short.
  RowShards table_shards() const { return {op.tables, op.ranks}; }
  int32_t table_cols() const { return static_cast<int32_t>(op.n / op.tables); }
  int32_t tables_each() const { return static_cast<int32_t>(table_shards().block()); }
  int32_t cols_each() const { return tables_each() * table_cols(); }
  int32_t cols_of(int rank) const {
    return static_cast<int32_t>(table_shards().size(rank)) * table_cols();
  }
  int32_t tables_of_task() const {
    return static_cast<int32_t>(look_ups_at_once(op, schedule.tile_n));
  }
};

}  // namespace stretto
