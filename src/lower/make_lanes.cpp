// make_lanes and drop_idle_lanes: the lanes of every rank.
#include "lower/lowering.h"

namespace stretto {
namespace {

// Copies wait for one another only where they share a link: one queue for peers in the node (two
// streams were measured to be no faster than one, and one queue keeps destinations in rotation),
// one for the network.
int copy_queues(const SegmentLowering& state) {
  if (state.schedule.mover != Mover::copy_engine) return 0;
  return state.machine.same_node(0, state.op.ranks - 1) ? 1 : 2;
}

bool has_work(const Lane& lane) {
  return std::any_of(lane.instrs.begin(), lane.instrs.end(),
                     [](const Instr& instr) { return instr.is_task(); });
}

}  // namespace

void make_lanes(Draft& draft) {
  Lowering& state = lowering(draft);
  LaneCounts& all = state.lanes.all;
  for (SegmentLowering& product : state.products) {
    LaneTable& table = product.lanes;
    table.compute = product.compute_lanes();
    if (product.pattern.communicates) {
      table.comm = product.comm_lanes();
      table.copy = copy_queues(product);
      table.nccl = product.by_nccl() ? 1 : 0;
    }
    all.compute = std::max(all.compute, table.compute);
    all.comm = std::max(all.comm, table.comm);
    all.copy = std::max(all.copy, table.copy);
    all.nccl = std::max(all.nccl, table.nccl);
  }
  for (RoutedLowering& product : state.routed) {
    LaneTable& table = product.lanes;
    table.compute = std::max(1, state.machine.sms - product.sms_of_others);
    table.comm = product.comm_lanes();
    if (product.by_copies() && product.x.is_gathered) {
      table.copy = state.machine.same_node(0, state.op.ranks - 1) ? 1 : 2;
    }
    table.nccl = product.by_nccl() ? 1 : 0;
    all.compute = std::max(all.compute, table.compute);
    all.comm = std::max(all.comm, table.comm);
    all.copy = std::max(all.copy, table.copy);
    all.nccl = std::max(all.nccl, table.nccl);
  }
  for (LookUpLowering& one : state.look_ups) {
    LaneTable& table = one.lanes;
    table.compute = std::max(1, state.machine.sms - one.sms_of_others);
    table.comm = one.comm_lanes();
    if (one.exchanges() && one.schedule.mover == Mover::copy_engine) {
      table.copy = state.machine.same_node(0, state.op.ranks - 1) ? 1 : 2;
    }
    table.nccl = one.by_nccl() ? 1 : 0;
    all.compute = std::max(all.compute, table.compute);
    all.comm = std::max(all.comm, table.comm);
    all.copy = std::max(all.copy, table.copy);
    all.nccl = std::max(all.nccl, table.nccl);
  }
  for (const EdgeSchedule& edge : state.schedule.edges) {
    all.copy = std::max(all.copy, edge.mover == Mover::copy_engine ? 1 : 0);
    all.nccl = std::max(all.nccl, edge.mover == Mover::nccl ? 1 : 0);
  }
  if (state.schedule.products.empty()) all.compute = state.machine.sms;
  state.lanes.compute = all.compute;
  state.lanes.comm = all.comm;
  for (SegmentLowering& product : state.products) product.lanes.all = all;
  for (RoutedLowering& product : state.routed) product.lanes.all = all;
  for (LookUpLowering& one : state.look_ups) one.lanes.all = all;
  std::vector<Lane>& lanes = state.plan.lanes;
  lanes.reserve(static_cast<size_t>(state.op.ranks * all.per_rank()));
  for (int rank = 0; rank < state.op.ranks; ++rank) {
    auto add = [&](LaneKind kind, int count) {
      for (int i = 0; i < count; ++i) {
        lanes.push_back({kind, static_cast<uint16_t>(rank), static_cast<uint16_t>(i), {}});
      }
    };
    add(LaneKind::compute, all.compute);
    add(LaneKind::comm, all.comm);
    add(LaneKind::copy, all.copy);
    add(LaneKind::nccl, all.nccl);
  }
}

void drop_idle_lanes(Draft& draft) {
  std::vector<Lane>& lanes = draft.plan.lanes;
  constexpr uint32_t kDropped = UINT32_MAX;
  std::vector<uint32_t> moved(lanes.size(), kDropped);
  size_t kept = 0;
  for (size_t i = 0; i < lanes.size(); ++i) {
    // Boundaries are awaited and told of in the first compute lane.
    const bool first_compute = lanes[i].kind == LaneKind::compute && lanes[i].index == 0;
    if (!first_compute && !has_work(lanes[i])) continue;
    moved[i] = static_cast<uint32_t>(kept);
    if (kept != i) lanes[kept] = std::move(lanes[i]);
    const bool follows = kept > 0 && lanes[kept - 1].rank == lanes[kept].rank &&
                         lanes[kept - 1].kind == lanes[kept].kind;
    lanes[kept].index = follows ? static_cast<uint16_t>(lanes[kept - 1].index + 1) : uint16_t{0};
    ++kept;
  }
  lanes.resize(kept);
  for (InstrRef& ref : draft.program) ref.lane = moved[ref.lane];
  // Instructions behind those that go move up, and so do the ends of stretches.
  uint32_t at = 0, left = 0;
  for (Draft::Stretch& stretch : draft.stretches) {
    for (; at < stretch.end; ++at) left += draft.program[at].lane != kDropped;
    stretch.end = left;
  }
  std::erase_if(draft.program, [](const InstrRef& ref) { return ref.lane == kDropped; });
}

}  // namespace stretto
