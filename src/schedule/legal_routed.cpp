// Which schedules serve products whose rows choose matrices.
#include "schedule/legal_rules.h"
#include "schedule/only_tiles.h"

namespace stretto {

// Rows that lie in order already are taken as they lie.
void check_permute(Case& c) {
  if (c.op.is_routed() && c.op.only_moves() && c.schedule.permute == Permute::load) {
    c.refuse("permute=load with rows that no tile loads: take permute=pass");
  }
  if (c.schedule.permute == Permute::load || c.op.is_routed()) return;
  c.refuse("permute={} with rows that choose no experts: take permute=load",
           to_string(c.schedule.permute));
}

void check_kernel_of_experts(Case& c) {
  const std::string why = why_no_kernel_of_experts(c.op);
  if (!why.empty()) c.refuse("gemm=library with {}: take gemm=tiles", why);
}

void check_routed(Case& c) {
  const Schedule& s = c.schedule;
  constexpr std::string_view kKind = "rows that choose their matrices";
  const auto refuse = [&](bool is_set, std::string_view set, std::string_view why,
                          std::string_view right) {
    if (is_set) c.refuse("{} with {}, {}: take {}", set, kKind, why, right);
  };
  check_gemm(c);
  refuse(c.op.only_moves() && s.gemm == GemmBy::library, "gemm=library", "which nobody multiplies",
         "gemm=tiles");
  if (s.gemm == GemmBy::library && c.op_good && !c.op.only_moves()) check_kernel_of_experts(c);
  refuse(s.algorithm != 0, fmt::format("algorithm={}", s.algorithm), "whose library proposes one",
         "algorithm=0");
  if (s.collectives != CollectivesBy::nccl) {
    check_collectives(c);
    refuse(s.mover == Mover::nccl && s.reduction == Reduction::slots,
           fmt::format("reduction=slots and collectives={}", to_string(s.collectives)),
           "whose sums its collectives make", "reduction=nccl or collectives=nccl");
  }
  refuse(s.split_k > 1, fmt::format("split-k={}", s.split_k), "whose tiles are many", "split-k=1");
  refuse(s.k_phases > 1, fmt::format("k-phases={}", s.k_phases), "which come whole", "k-phases=1");
  refuse(s.cluster != 1, fmt::format("cluster={}", s.cluster),
         "of which two entries seldom share an expert", "cluster=1");
  refuse(s.own != OwnRows::direct, fmt::format("own={}", to_string(s.own)),
         "which are gathered by a table", "own=direct");
  refuse(s.start != Start::tile, fmt::format("start={}", to_string(s.start)),
         "which tiles await source by source", "start=tile");
  refuse(s.rows != RowCount::fixed, fmt::format("rows={}", to_string(s.rows)),
         "of which runs have as many as the plan", "rows=fixed");
  refuse(s.chunks != 1, fmt::format("chunks={}", s.chunks), "of which a source's are one chunk",
         "chunks=1");
  if (c.op.ranks > 1) {
    const bool by_nccl = s.mover == Mover::nccl, by_lanes = s.mover == Mover::epilogue;
    const bool by_copies = s.mover == Mover::copy_engine;
    const bool is_ahead = by_nccl || by_lanes || by_copies;
    refuse(!is_ahead && s.gemm == GemmBy::library,
           fmt::format("gemm=library and mover={}", to_string(s.mover)), "which tiles await",
           "mover=nccl, epilogue or copy-engine, or gemm=tiles");
    refuse(!is_ahead && s.mover != Mover::comm_blocks, fmt::format("mover={}", to_string(s.mover)),
           "which blocks pick", "mover=comm-blocks, epilogue, copy-engine or nccl");
    refuse((by_lanes || by_copies) && s.comm_sms != 0,
           fmt::format("comm-sms={} and mover={}", s.comm_sms, to_string(s.mover)),
           by_lanes ? "which all blocks send" : "which no block sends", "comm-sms=0");
    refuse(s.granularity != Granularity::whole && s.granularity != Granularity::chunk,
           fmt::format("granularity={}", to_string(s.granularity)),
           "which one partition has, or one for each source",
           "granularity=whole, or chunk for each source");
    if (is_ahead) {
      const std::string mover = fmt::format("mover={}", to_string(s.mover));
      refuse(s.sync != Sync::event, fmt::format("sync={} and {}", to_string(s.sync), mover),
             "which streams order", "sync=event");
    } else {
      refuse(s.sync == Sync::event, fmt::format("sync=event and mover={}", to_string(s.mover)),
             "which tiles await", "sync=flag or counter");
    }
    const bool has_sums = c.op.kind.out != Edge::none;
    refuse(
        s.order != Order::plain && s.order != (has_sums ? Order::peer_staggered : Order::arrival),
        fmt::format("order={}", to_string(s.order)),
        has_sums ? "whose sums leave for the next ranks first" : "which come rank by rank",
        has_sums ? "order=peer-staggered" : "order=arrival");
    const Reduction right = !has_sums             ? Reduction::none
                            : c.op.adds_for_all() ? Reduction::two_shot
                                                  : Reduction::slots;
    const bool sums_by_nccl = has_sums && by_nccl && s.reduction == Reduction::nccl;
    refuse(s.reduction != right && !sums_by_nccl,
           fmt::format("reduction={}", to_string(s.reduction)),
           has_sums ? "whose sums are added by their owners" : "which nobody adds",
           fmt::format("reduction={}{}", to_string(right), has_sums && by_nccl ? " or nccl" : ""));
    const bool has_fp32 = has_sums && !sums_by_nccl && s.partials == DType::fp32;
    refuse(s.partials != c.op.dtype && !has_fp32, fmt::format("partials={}", to_string(s.partials)),
           sums_by_nccl ? "which collectives add in their type" : "whose sums travel in their type",
           fmt::format("partials={}", to_string(c.op.dtype)));
  }
  if (c.op.weights > 1 && (s.tile_n % 2 != 0 || s.tile_n < 2 * kMinTile)) {
    c.refuse(
        "tile={}x{} for two weights, each of which has half of the columns: take an even number of "
        "at least {}",
        s.tile_m, s.tile_n, 2 * kMinTile);
  }
  check_size(c);
}

}  // namespace stretto
