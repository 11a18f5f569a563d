// Which schedules have lanes in clusters.
#include "schedule/legal_rules.h"

namespace stretto {

// Paired tiles stand below one another and wait for what both read; they have nothing else to wait
// for, so they may go on stage by stage together. Movers are blocks of their kernel, which has
// nothing but whole pairs.
void check_cluster(Case& c) {
  const Schedule& s = c.schedule;
  if (s.cluster < 1 || s.cluster > kMostClustered) {
    c.refuse("cluster={}; it must be 1 or {}", s.cluster, kMostClustered);
  }
  if (s.cluster != kMostClustered) return;
  const auto refuse = [&](std::string_view with, std::string_view why, std::string_view right) {
    c.refuse("cluster=2 with {}, {}: take cluster=1{}", with, why, right);
  };
  if (c.op.makes_terms()) {
    refuse(to_string(c.op.kind), "whose tiles wait for what is added to them", "");
  } else if (s.mover != Mover::comm_blocks) {
    refuse(fmt::format("mover={}", to_string(s.mover)), "which is no part of the kernel",
           " or mover=comm-blocks");
  } else if (s.granularity != Granularity::tile) {
    refuse(fmt::format("granularity={}", to_string(s.granularity)),
           "whose tiles wait for more than their own rows", " or granularity=tile");
  }
  if (s.split_k > 1) {
    refuse(fmt::format("split-k={}", s.split_k), "whose ranges are added across lanes",
           " or split-k=1");
  }
  if (s.rows != RowCount::fixed) {
    refuse(fmt::format("rows={}", to_string(s.rows)),
           "in which one tile of a pair may have no rows", " or rows=fixed");
  }
  if (s.comm_sms % kMostClustered != 0) {
    const bool has_more = s.comm_sms + kMostClustered < c.machine.sms;  // and a pair to compute
    refuse(fmt::format("comm-sms={}", s.comm_sms), "which leaves half a pair of SMs",
           fmt::format(" or comm-sms={}", has_more ? s.comm_sms + 1 : s.comm_sms - 1));
  }
  if (s.comm_sms >= 0 && s.comm_sms < c.machine.sms &&
      c.machine.sms - s.comm_sms < kMostClustered) {
    refuse(fmt::format("comm-sms={}", s.comm_sms), "which leaves no pair of SMs", "");
  }
  if (!c.op_good || s.tile_m < 1) return;
  const auto refuse_odd = [&](int64_t rows, const std::string& named) {
    const int64_t tile_rows = (rows + s.tile_m - 1) / s.tile_m;
    if (tile_rows % kMostClustered == 0) return false;
    refuse(fmt::format("tile={}x{} for {}", s.tile_m, s.tile_n, named),
           fmt::format("whose last of {} tile rows has no partner", tile_rows),
           " or a tile of other rows");
    return true;
  };
  if (!c.op.multiplies_own_rows()) {
    refuse_odd(c.op.m, fmt::format("m={}", c.op.m));
    return;
  }
  const RowShards own = c.op.row_shards();  // the last ranks may have fewer
  for (int rank = 0; rank < own.ranks; ++rank) {
    if (refuse_odd(own.size(rank), fmt::format("{} rows of rank {}", own.size(rank), rank))) return;
  }
}

}  // namespace stretto
