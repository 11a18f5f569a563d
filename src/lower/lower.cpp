// Lowering as a table of steps.
#include <algorithm>

#include "lower/lowering.h"
#include "lower/normed_sums.h"
#include "lower/residual_sums.h"
#include "lower/restored_rows.h"
#include "plan/fuse_tasks.h"
#include "schedule/awaited_collectives.h"
#include "stretto/error.h"

namespace stretto {
namespace {

// A step of products, once for each.
template <void (*kStep)(SegmentLowering&)>
void each(Draft& draft) {
  for (SegmentLowering& product : lowering(draft).products) kStep(product);
}

void fuse_tasks(Draft& draft) {
  draft.ranks_are_alike ? fuse_tasks_of_alike_ranks(draft.plan) : stretto::fuse_tasks(draft.plan);
}

constexpr LowerStep kSteps[] = {
    {"check_legal", "later steps take a good operator and schedule for granted", check_legal},
    {"lay_out_rows", "tiles are cut over storage rows", each<lay_out_rows>},
    {"cut_tiles", "pieces and order are made of tiles", each<cut_tiles>},
    {"pack_tiles", "groups of waves need the tiles; their storage decides the order",
     each<pack_tiles>},
    {"cut_pieces", "the order follows the pieces that tiles need or make", each<cut_pieces>},
    {"order_tiles", "lanes are dealt tiles in this order", each<order_tiles>},
    {"declare_buffers", "the sizes follow from layout, packing and pieces", declare_buffers},
    {"make_lanes", "their number follows from tiles and schedule", make_lanes},
    {"emit_tasks", "everything that a task names now exists", emit_tasks},
    {"say_libraries", "which kernels a product has is known by its tasks", say_libraries},
    {"drop_idle_lanes", "only now it is known which lanes have work", drop_idle_lanes},
    {"place_signals", "derives synchronisation from all tasks at once", place_signals},
    {"fuse_tasks", "what a GPU keeps in registers hangs on who waits and reads", fuse_tasks},
};

// What is known before the first step.
Plan empty_plan(const Operator& op, const OperatorSchedule& schedule, const Machine& machine) {
  Plan plan;
  plan.op = op;
  plan.schedule = to_string(schedule);
  plan.sms = machine.sms;
  if (schedule.products.empty()) return plan;
  const Schedule& first = schedule.products.front();
  plan.cluster = first.cluster;
  plan.low_latency_collectives = std::any_of(
      schedule.products.begin(), schedule.products.end(),
      [](const Schedule& one) { return one.collectives == CollectivesBy::low_latency; });
  return plan;
}

// What cannot be split is refused by the first step.
OperatorSchedule possible(const Operator& op, OperatorSchedule schedule) {
  const bool is_possible = schedule.split >= 1 && schedule.split <= kMostParts &&
                           why_no_split(op, schedule.split).empty();
  if (!is_possible) schedule.split = 1;
  return schedule;
}

}  // namespace

std::span<const LowerStep> lower_steps() { return kSteps; }

Lowering::Lowering(const Operator& operation, const OperatorSchedule& points,
                   const Machine& cluster)
    : Draft{operation, points, cluster, empty_plan(operation, points, cluster), {}, {}},
      rows(row_parts(operation, possible(operation, points), cluster)),
      boundaries(static_cast<size_t>(operation.ranks), 0) {
  for (const RowPart& part : rows.parts) {
    parts.push_back({part, std::vector<uint16_t>(op.tensors.size(), 0)});
  }
  size_t next = 0;
  for (size_t i = 0; i < op.segments.size(); ++i) {
    if (!op.segments[i].product) continue;
    if (op.segments[i].product->is_routed()) {
      for (size_t p = 0; p < parts.size(); ++p) {
        routed.emplace_back(parts[p].rows.op.segments[i], schedule.products.at(next), next, p);
      }
      ++next;
      continue;
    }
    if (op.segments[i].product->looks_up()) {
      for (size_t p = 0; p < parts.size(); ++p) {
        look_ups.emplace_back(parts[p].rows.op.segments[i], schedule.products.at(next), next, p);
      }
      ++next;
      continue;
    }
    schedule_of.push_back(static_cast<uint32_t>(next));
    for (PartLowering& part : parts) {
      const Schedule& point = schedule.products.at(next);
      products.emplace_back(*this, part, part.rows.op.segments[i], point);
      products.back().normed = normed_sums(part.rows.op, i, point);
      products.back().residual = residual_sum(op, i, point);
      products.back().restored = restored_rows(op, i, point);
    }
    ++next;
  }
  // The lanes of all products are there at once. NCCL's kernels fit beside none of them.
  int blocks = 0, nccl = 0;
  for (const SegmentLowering& product : products) {
    int& most = product.by_nccl() ? nccl : blocks;
    most = std::max(most, product.sms_for_others());
  }
  for (const RoutedLowering& product : routed) {
    blocks = std::max(blocks, product.comm_lanes());
  }
  for (const LookUpLowering& one : look_ups) {
    int& most = one.by_nccl() ? nccl : blocks;
    most = std::max(most, one.sms_for_others());
  }
  nccl = sms_for_collectives(op, schedule, nccl);
  // A copy engine may have to signal peers, by a kernel, while its rank's tiles of another product
  // wait for what these make of it.
  const auto any = [&](const auto& is) {
    return std::any_of(schedule.products.begin(), schedule.products.end(), is);
  };
  if (op.ranks > 1 && any([](const Schedule& s) { return s.mover == Mover::copy_engine; }) &&
      any([](const Schedule& s) { return s.sync != Sync::event; })) {
    blocks = std::max(blocks, 1);
  }
  const int others = blocks + nccl;
  for (LookUpLowering& one : look_ups) one.sms_of_others = others;
  for (SegmentLowering& product : products) product.sms_of_others = others;
  for (RoutedLowering& product : routed) product.sms_of_others = others;
}

SegmentLowering::SegmentLowering(Draft& draft, const PartLowering& of, const OperatorSegment& one,
                                 const Schedule& point)
    : plan(draft.plan),
      program(draft.program),
      of_rows(of),
      whole(of.rows.op),
      part(one),
      op(*one.product),
      schedule(point),
      machine(draft.machine),
      pattern(pattern_of(op, point)),
      shards(op.owns_rows() ? op.row_shards() : RowShards{op.m, 1}) {}

int SegmentLowering::sms_for_others() const {
  // NCCL's collectives are kernels, and copy engines signal by one of a warp where they cannot by a
  // copy. Where tiles or what follows them wait for those, they need an SM that no such block
  // holds.
  const bool by_streams = schedule.mover == Mover::copy_engine || schedule.mover == Mover::nccl;
  const int for_streams = by_streams && schedule.sync != Sync::event && op.ranks > 1 ? 1 : 0;
  return std::max(schedule.comm_sms, for_streams);
}

int SegmentLowering::compute_lanes() const {
  // Whole clusters; there are as many tiles in each.
  const int most = std::max(schedule.cluster, std::min(machine.sms - sms_of_others, num_tasks()));
  return most / schedule.cluster * schedule.cluster;
}

Plan lower(const Operator& op, const OperatorSchedule& schedule, const Machine& machine,
           const std::function<void(const LowerStep&, const Draft&)>& after_step) {
  check_products(op, schedule);
  Lowering state(op, schedule, machine);
  for (const LowerStep& step : lower_steps()) {
    step.run(state);
    if (after_step) after_step(step, state);
  }
  return std::move(state.plan);
}

}  // namespace stretto
