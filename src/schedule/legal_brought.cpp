// What brings a product its input (NAME.in): it moves a matrix as the edge's rules have it, and the
// product's tiles are another segment's.
#include "schedule/legal_rules.h"

namespace stretto {

void check_brought(Case& c) {
  const Schedule& s = c.schedule;
  const auto refuse = [&](bool is_set, std::string_view set, std::string_view why,
                          std::string_view right) {
    if (is_set)
      c.refuse("{} with what only brings a product its input, {}: take {}", set, why, right);
  };
  refuse(s.gemm != GemmBy::tiles, fmt::format("gemm={}", to_string(s.gemm)),
         "where nobody multiplies", "gemm=tiles");
  refuse(s.split_k > 1, fmt::format("split-k={}", s.split_k), "where nobody multiplies",
         "split-k=1");
  refuse(s.k_phases > 1, fmt::format("k-phases={}", s.k_phases),
         "whose tiles take all of K at once", "k-phases=1");
  refuse(s.cluster != 1, fmt::format("cluster={}", s.cluster), "where nobody multiplies",
         "cluster=1");
  refuse(s.own != OwnRows::direct, fmt::format("own={}", to_string(s.own)),
         "which brings own rows always", "own=direct");
  refuse(s.start != Start::tile, fmt::format("start={}", to_string(s.start)), "which has no tiles",
         "start=tile");
  refuse(s.rows != RowCount::fixed, fmt::format("rows={}", to_string(s.rows)),
         "of an operator of two segments", "rows=fixed");
  const bool by_nccl = s.mover == Mover::nccl;
  refuse(by_nccl && s.sync != Sync::event, fmt::format("sync={} and mover=nccl", to_string(s.sync)),
         "whose collectives stand between kernels", "sync=event");
  refuse(by_nccl && s.granularity != Granularity::whole,
         fmt::format("granularity={} and mover=nccl", to_string(s.granularity)),
         "which nobody takes chunk by chunk", "granularity=whole");
}

}  // namespace stretto
