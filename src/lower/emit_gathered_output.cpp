// A gather for the caller: each lane sends its block of a rank's rows to all ranks, or copy engines
// or NCCL do. Where the stage that makes the rows sends them (sent_rows.h), nothing is left but to
// await what peers write.
#include <memory>

#include "lower/emit_rows.h"
#include "lower/row_blocks.h"
#include "lower/sent_rows.h"

namespace stretto {
namespace {

class OutputGather {
 public:
  OutputGather(Lowering& state, const PartLowering& part, const OperatorSegment& edge,
               bool by_movers)
      : state_(state),
        part_(part),
        op_(part.rows.op),
        tensor_(op_.tensor(edge.input)),
        shards_{tensor_.rows, op_.ranks},
        edge_(edge),
        by_movers_(by_movers),
        emit_(state, state.lanes, part) {}

  void send() {
    if (op_.ranks == 1) return send_by_lanes(1);
    switch (state_.schedule.mover_of_edge(edge_.name)) {
      case Mover::copy_engine:
        send_by_copies();
        return send_by_lanes(op_.ranks);  // its own
      case Mover::nccl:
        return send_by_nccl();
      case Mover::epilogue:
      case Mover::comm_blocks:
        return send_by_lanes(1);
    }
  }

  void deliver() {
    // What peers write must have arrived when the run ends; with events, that is a kernel's end.
    const std::vector<Schedule>& schedules = state_.schedule.products;
    if (!schedules.empty() && schedules.back().sync == Sync::event) end_kernels(state_, emit_);
    for (int rank = 0; rank < op_.ranks; ++rank) {
      bool any = false;
      for (int source = 0; source < op_.ranks; ++source) {
        if (source == rank || shards_.size(source) == 0) continue;
        any = true;
        emit_.read(gathered_rows(source, rank));
      }
      if (any) emit_.task(state_.lanes.compute_lane(rank, 0), Opcode::deliver);
    }
  }

 private:
  uint16_t own() const {
    return tensor_.stage >= 0 ? part_.results[static_cast<size_t>(edge_.input)]
                              : *state_.plan.find_buffer(tensor_.name);
  }
  // Rows of a rank, counted from its first, and where they lie in the whole.
  Rect own_rows(int rank) const {
    return {0, static_cast<int32_t>(shards_.size(rank)), 0, static_cast<int32_t>(tensor_.cols)};
  }
  Region gathered_rows(int source, int rank) const {
    return region_of(own_rows(source).moved(static_cast<int32_t>(shards_.begin(source))),
                     *state_.plan.find_buffer(tensor_.name), rank);
  }

  // Each block to the ranks from the `next`th behind its own on, and last to its own.
  void send_by_lanes(int next) {
    for (int rank = 0; rank < op_.ranks; ++rank) {
      for_each_row_block(state_, op_, tensor_, by_movers_, rank, [&](uint32_t lane, Rect rows) {
        emit_.read(region_of(rows, own(), rank));
        write_to_callers(state_, emit_, tensor_, rank, rows, next);
        emit_.task(lane, Opcode::copy);
      });
    }
  }

  // All that a rank has in one copy to each other, the next rank first.
  void send_by_copies() {
    for (int rank = 0; rank < op_.ranks; ++rank) {
      if (own_rows(rank).empty()) continue;
      for (int i = 1; i < op_.ranks; ++i) {
        emit_.read(region_of(own_rows(rank), own(), rank));
        emit_.write(gathered_rows(rank, (rank + i) % op_.ranks));
        emit_.task(state_.lanes.copy_lane(rank, 0), Opcode::copy);
      }
    }
  }

  void send_by_nccl() {
    for (int rank = 0; rank < op_.ranks; ++rank) {
      emit_.read(region_of(own_rows(rank), own(), rank));
      for (int source = 0; source < op_.ranks; ++source) {
        emit_.write(gathered_rows(source, rank));
      }
      emit_.collective(rank, CollectiveKind::all_gather, 0);
    }
  }

  Lowering& state_;
  const PartLowering& part_;
  const Operator& op_;
  const Tensor& tensor_;
  const RowShards shards_;
  const OperatorSegment& edge_;
  const bool by_movers_;
  Emitter emit_;
};

}  // namespace

AfterTiles emit_gathered_output(Lowering& state, const PartLowering& part,
                                const OperatorSegment& edge, bool by_movers) {
  const auto gather = std::make_shared<OutputGather>(state, part, edge, by_movers);
  if (!is_sent_by_stage(state, part, edge)) gather->send();
  return {{}, [gather] { gather->deliver(); }};
}

}  // namespace stretto
