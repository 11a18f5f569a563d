// Lowering as a table of steps.
#include "lower/lowering.h"
#include "stretto/error.h"

namespace stretto {
namespace {

constexpr LowerStep kSteps[] = {
    {"check_legal", "later steps take a good operator and schedule for granted", check_legal},
    {"lay_out_rows", "tiles are cut over storage rows", lay_out_rows},
    {"cut_tiles", "pieces and order are made of tiles", cut_tiles},
    {"pack_tiles", "groups of waves need the tiles; their storage decides the order", pack_tiles},
    {"cut_pieces", "the order follows the pieces that tiles need or make", cut_pieces},
    {"order_tiles", "lanes are dealt tiles in this order", order_tiles},
    {"declare_buffers", "the sizes follow from layout, packing and pieces", declare_buffers},
    {"make_lanes", "their number follows from tiles and schedule", make_lanes},
    {"emit_tasks", "everything that a task names now exists", emit_tasks},
    {"drop_idle_lanes", "only now it is known which lanes have work", drop_idle_lanes},
    {"place_signals", "derives synchronisation from all tasks at once", place_signals},
};

// What is known before the first step.
Plan empty_plan(const Operator& op, const Schedule& schedule, const Machine& machine) {
  Plan plan;
  plan.op = op;
  plan.schedule = to_string(schedule);
  plan.sms = machine.sms;
  plan.library_gemms = schedule.gemm == GemmBy::library;
  plan.library_algorithm = schedule.algorithm;
  plan.cluster = schedule.cluster;
  plan.low_latency_collectives = schedule.collectives == CollectivesBy::low_latency;
  return plan;
}

}  // namespace

std::span<const LowerStep> lower_steps() { return kSteps; }

Lowering::Lowering(const Operator& operation, const Schedule& point, const Machine& cluster)
    : Draft{operation, point, cluster, empty_plan(operation, point, cluster), {}},
      pattern(pattern_of(operation, point)),
      shards(operation.kind == OpKind::gemm_ar ? RowShards{operation.m, 1}
                                               : operation.row_shards()) {}

int Lowering::compute_lanes() const {
  // NCCL's collectives are kernels, and copy engines signal by one of a warp where they cannot by a
  // copy. Where tiles or what follows them wait for those, they need an SM that no such block
  // holds.
  const bool by_streams = schedule.mover == Mover::copy_engine || schedule.mover == Mover::nccl;
  const int for_streams = by_streams && schedule.sync != Sync::event && op.ranks > 1 ? 1 : 0;
  const int others = std::max(schedule.comm_sms, for_streams);
  // Whole clusters; there are as many tiles in each.
  const int most = std::max(schedule.cluster, std::min(machine.sms - others, num_tasks()));
  return most / schedule.cluster * schedule.cluster;
}

Pattern pattern_of(const Operator& op, const Schedule& schedule) {
  if (op.ranks == 1) return Pattern::local;
  const bool by_nccl = schedule.mover == Mover::nccl;
  if (!op.reduces()) return by_nccl ? Pattern::nccl_gather : Pattern::push_gather;
  if (!by_nccl) return Pattern::slot_reduce;
  return schedule.granularity == Granularity::waves ? Pattern::packed_reduce : Pattern::nccl_reduce;
}

Plan lower(const Operator& op, const Schedule& schedule, const Machine& machine,
           const std::function<void(const LowerStep&, const Draft&)>& after_step) {
  Lowering state(op, schedule, machine);
  for (const LowerStep& step : lower_steps()) {
    step.run(state);
    if (after_step) after_step(step, state);
  }
  return std::move(state.plan);
}

}  // namespace stretto
