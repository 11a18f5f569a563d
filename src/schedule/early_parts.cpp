#include "schedule/early_parts.h"

#include <fmt/format.h>

#include <algorithm>

namespace stretto {
namespace {

bool has_sums(const Segment& product) {
  return product.ranks > 1 && product.is_dense() && product.makes_terms() &&
         (product.kind.out == Edge::all_reduce || product.kind.out == Edge::reduce_scatter);
}

bool is_fast(const Schedule& schedule) {
  return schedule.mover == Mover::nccl && schedule.collectives == CollectivesBy::low_latency;
}

// visit(product, number) of those whose early sums go by copy engines.
template <class Visit>
void each_early(const Operator& op, const OperatorSchedule& schedule, Visit visit) {
  if (!has_early_parts(schedule)) return;
  size_t number = 0;
  for (const OperatorSegment& segment : op.segments) {
    if (!segment.product) continue;
    if (has_sums(*segment.product) && is_fast(schedule.products[number])) {
      visit(*segment.product, number);
    }
    ++number;
  }
}

}  // namespace

bool may_have_early_parts(const Operator& op, int split) {
  const auto is_early = [](const OperatorSegment& one) { return one.name == kEarlyParts; };
  return split > 1 && std::none_of(op.segments.begin(), op.segments.end(), is_early);
}

bool has_early_parts(const OperatorSchedule& schedule) {
  return schedule.split > 1 && schedule.mover_of_edge(kEarlyParts) == Mover::copy_engine;
}

std::string why_no_early_parts(const Operator& op, const OperatorSchedule& schedule) {
  if (schedule.split == 1) return "rows are one part: take split=2, or leave it out";
  const Mover mover = schedule.mover_of_edge(kEarlyParts);
  if (mover != Mover::copy_engine) {
    return fmt::format("mover={} beside a product that has all SMs: take mover=copy-engine",
                       to_string(mover));
  }
  bool any = false;
  each_early(op, schedule, [&](const Segment&, size_t) { any = true; });
  if (any) return "";
  return "no product has sums by low-latency collectives: take mover=nccl,collectives=low-latency "
         "for one that has, or leave it out";
}

OperatorSchedule schedule_of_part(const Operator& op, const OperatorSchedule& schedule,
                                  bool is_last) {
  OperatorSchedule part = schedule;
  std::erase_if(part.edges, [](const EdgeSchedule& edge) { return edge.name == kEarlyParts; });
  if (is_last) return part;
  each_early(op, schedule, [&](const Segment& product, size_t number) {
    Schedule& one = part.products[number];
    const bool is_owners = product.kind.out == Edge::reduce_scatter;
    one.mover = Mover::copy_engine;
    one.collectives = CollectivesBy::nccl;
    one.granularity = Granularity::chunk;
    one.chunks = 1;
    one.order = is_owners ? Order::peer_staggered : Order::plain;
    one.reduction = is_owners ? Reduction::slots : Reduction::one_shot;
  });
  return part;
}

double share_of_early_part(const Operator& op, const OperatorSchedule& schedule,
                           const Machine& machine) {
  constexpr double kLeast = 0.5, kMost = 0.75;  // a short product loses more than its sums hide
  double flops = 0, bytes = 0;
  each_early(op, schedule, [&](const Segment& product, size_t) {
    flops += flops_per_rank(product);
    bytes += link_bytes(product);
  });
  if (flops <= 0) return 0;
  if (machine.gemm_tflops <= 0 || machine.link_gb_per_s <= 0) return kLeast;
  const double product_us = flops / (1e6 * machine.gemm_tflops);
  const double link_us = bytes / (1e3 * machine.link_gb_per_s);
  return std::clamp(product_us / (product_us + link_us), kLeast, kMost);
}

}  // namespace stretto
