// Which schedules serve pooled look-ups.
#include "schedule/legal_rules.h"

namespace stretto {
namespace {

constexpr std::string_view kKind = "pooled look-ups";

// What only products have.
void check_no_product(Case& c) {
  const Schedule& s = c.schedule;
  const auto refuse = [&](bool is_set, std::string_view set, std::string_view right) {
    if (is_set) c.refuse("{} with {}, which multiply nothing: take {}", set, kKind, right);
  };
  refuse(s.gemm != GemmBy::tiles, fmt::format("gemm={}", to_string(s.gemm)), "gemm=tiles");
  refuse(s.algorithm != 0, fmt::format("algorithm={}", s.algorithm), "algorithm=0");
  refuse(s.split_k > 1, fmt::format("split-k={}", s.split_k), "split-k=1");
  refuse(s.k_phases > 1, fmt::format("k-phases={}", s.k_phases), "k-phases=1");
  refuse(s.cluster != 1, fmt::format("cluster={}", s.cluster), "cluster=1");
  refuse(s.own != OwnRows::direct, fmt::format("own={}", to_string(s.own)), "own=direct");
  refuse(s.start != Start::tile, fmt::format("start={}", to_string(s.start)), "start=tile");
  refuse(s.reduction != Reduction::none, fmt::format("reduction={}", to_string(s.reduction)),
         "reduction=none");
  refuse(s.partials != c.op.dtype, fmt::format("partials={}", to_string(s.partials)),
         fmt::format("partials={}", to_string(c.op.dtype)));
}

void check_exchanged(Case& c) {
  const Schedule& s = c.schedule;
  const auto refuse = [&](bool is_set, std::string_view set, std::string_view why,
                          std::string_view right) {
    if (is_set) c.refuse("{} with {}, {}: take {}", set, kKind, why, right);
  };
  const bool by_nccl = s.mover == Mover::nccl;
  refuse(s.collectives != CollectivesBy::nccl,
         fmt::format("collectives={}", to_string(s.collectives)), "whose bags go to one rank each",
         "collectives=nccl");
  refuse(s.order != Order::plain &&
             (by_nccl || (s.order != Order::peer_staggered && s.order != Order::node_then_local)),
         fmt::format("order={}", to_string(s.order)),
         by_nccl ? "which one collective sends" : "which are sent rank by rank",
         by_nccl ? "order=plain" : "order=peer-staggered, node-then-local or plain");
  refuse(by_nccl && s.granularity != Granularity::whole,
         fmt::format("granularity={} and mover=nccl", to_string(s.granularity)),
         "which one collective sends", "granularity=whole");
  refuse(s.granularity == Granularity::waves && !by_nccl, "granularity=waves",
         "of which no collective moves groups", "granularity=tile, slice, chunk or whole");
  refuse(by_nccl != (s.sync == Sync::event),
         fmt::format("sync={} and mover={}", to_string(s.sync), to_string(s.mover)),
         by_nccl ? "which streams order" : "which are told of one by one",
         by_nccl ? "sync=event" : "sync=flag or counter");
}

}  // namespace

void check_look_ups(Case& c) {
  const Schedule& s = c.schedule;
  check_no_product(c);
  if (s.rows != RowCount::fixed) {
    c.refuse("rows={} with {}, of which runs have as many as the plan: take rows=fixed",
             to_string(s.rows), kKind);
  }
  if (c.op.ranks > 1 && c.op.communicates()) check_exchanged(c);
  check_size(c);
}

}  // namespace stretto
