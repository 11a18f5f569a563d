// Which ways of moving, synchronising, ordering and reducing go together, and for which operator.
#include "schedule/legal_rules.h"

namespace stretto {

namespace {

// A coordinate of rows that movers push and that tiles await as they come.
struct OfPushedRows {
  std::string set, unset;                                       // key=value, and the one without it
  std::string_view reductions, collectives, other_granularity;  // why these have none
};

void require_pushed_rows(Case& c, const OfPushedRows& of) {
  const Schedule& s = c.schedule;
  if (c.op.makes_terms()) {
    c.refuse("{} with {}, {}: take {}", of.set, to_string(c.op.kind), of.reductions, of.unset);
  } else if (s.mover == Mover::nccl) {
    c.refuse(
        "{} with mover=nccl, whose collectives {}: take {}, or mover=comm-blocks or "
        "copy-engine",
        of.set, of.collectives, of.unset);
  } else if (s.granularity != Granularity::tile && s.granularity != Granularity::slice) {
    c.refuse("{} at granularity={}, whose {}: take {}, or granularity=tile or slice", of.set,
             to_string(s.granularity), of.other_granularity, of.unset);
  }
}

// Phases of K are what movers push of rows, so that tiles need not wait for the whole of them.
void check_phases(Case& c) {
  if (c.schedule.k_phases <= 1) return;
  require_pushed_rows(
      c, {fmt::format("k-phases={}", c.schedule.k_phases), "k-phases=1", "which gathers no rows",
          "move whole rows", "tiles wait for more than their own rows"});
}

// Movers that push write own rows beside those of others, where tiles wait for their own rows only.
void check_own_rows(Case& c) {
  if (c.schedule.own == OwnRows::direct) return;
  require_pushed_rows(c, {fmt::format("own={}", to_string(c.schedule.own)), "own=direct",
                          "which gathers no rows", "write all rows", "own rows come first"});
}

// Tiles that wait for one another's rows.
void check_start(Case& c) {
  if (c.schedule.start == Start::tile) return;
  require_pushed_rows(c,
                      {fmt::format("start={}", to_string(c.schedule.start)), "start=tile",
                       "whose tiles wait for no rows", "bring all rows", "tiles begin by kernels"});
}

void check_gathers(Case& c) {
  check_phases(c);
  check_own_rows(c);
  check_start(c);
}

void check_mover(Case& c) {
  const Schedule& s = c.schedule;
  if (c.op.exchanges()) return;  // of one rank, and nothing moves
  if (s.mover == Mover::epilogue && !c.op.sends_tiles()) {
    c.refuse(
        "mover=epilogue pushes a GEMM's output, but {} communicates its input: take "
        "mover=comm-blocks or copy-engine",
        to_string(c.op.kind));
  }
  if (s.mover == Mover::nccl &&
      (s.granularity == Granularity::slice || s.granularity == Granularity::tile)) {
    c.refuse("mover=nccl cannot start a collective for every {}: take granularity=waves or chunk",
             to_string(s.granularity));
  }
  if (s.granularity == Granularity::waves && s.mover != Mover::nccl) {
    c.refuse("granularity=waves reorders storage for collectives: take mover=nccl instead of {}",
             to_string(s.mover));
  }
}

}  // namespace

void check_sync(Case& c) {
  const Schedule& s = c.schedule;
  if (s.sync == Sync::event && s.granularity != Granularity::whole &&
      s.granularity != Granularity::chunk) {
    c.refuse(
        "sync=event ends the kernel for every {}: take sync=counter or flag, or granularity=chunk",
        s.granularity == Granularity::waves ? "group" : to_string(s.granularity));
  }
}

namespace {

void check_order(Case& c) {
  const Schedule& s = c.schedule;
  if (c.op.exchanges()) return;  // the same
  const bool for_gather = s.order == Order::own_first || s.order == Order::arrival;
  if (for_gather && c.op.sends_tiles()) {
    c.refuse("order={} follows gathered input: take order=peer-staggered for {}",
             to_string(s.order), to_string(c.op.kind));
  }
  if (s.order == Order::peer_staggered && !c.op.sends_tiles()) {
    c.refuse("order={} follows the owners of output: take order=own-first for {}",
             to_string(s.order), to_string(c.op.kind));
  }
  const bool by_rows = s.granularity == Granularity::tile || s.granularity == Granularity::slice;
  if (s.order == Order::interleaved && !c.op.sends_tiles() &&
      (s.mover == Mover::nccl || !by_rows)) {
    c.refuse(
        "order=interleaved with mover={} at granularity={}: gathers take tile rows of all owners "
        "in turn where movers push tiles or slices: take order=own-first, or mover=comm-blocks at "
        "granularity=tile",
        to_string(s.mover), to_string(s.granularity));
  }
  if (s.order == Order::arrival && s.mover == Mover::nccl) {
    c.refuse(
        "order=arrival with mover=nccl, which delivers all ranks' rows together: take order=plain");
  }
  if (s.granularity == Granularity::waves && s.order != Order::plain) {
    c.refuse("granularity=waves stores tiles in plain order: take order=plain instead of {}",
             to_string(s.order));
  }
}

}  // namespace

void check_reduction(Case& c) {
  const Schedule& s = c.schedule;
  const auto refuse = [&](std::string_view right) {
    c.refuse("reduction={} is not for {}: take {}", to_string(s.reduction), to_string(c.op.kind),
             right);
  };
  const bool by_nccl = s.mover == Mover::nccl;
  if (!c.op.makes_terms()) {
    if (s.reduction != Reduction::none) refuse("reduction=none, there is nothing to add");
  } else if (c.op.adds_for_all()) {
    if (s.reduction != Reduction::one_shot && s.reduction != Reduction::two_shot &&
        s.reduction != Reduction::nccl) {
      refuse(by_nccl ? "reduction=nccl" : "reduction=two-shot or one-shot");
    }
  } else if (s.reduction != Reduction::slots && s.reduction != Reduction::nccl) {
    refuse(by_nccl ? "reduction=nccl" : "reduction=slots");
  }
  if (by_nccl && c.op.makes_terms() && s.reduction != Reduction::nccl) {
    c.refuse("mover=nccl adds while it moves: take reduction=nccl instead of reduction={}",
             to_string(s.reduction));
  }
  if (!by_nccl && s.reduction == Reduction::nccl) {
    c.refuse("reduction=nccl needs mover=nccl instead of mover={}", to_string(s.mover));
  }
  if (s.partials != c.op.dtype && s.partials != DType::fp32) {
    c.refuse("partials={} for {} inputs: take partials={}{}", to_string(s.partials),
             to_string(c.op.dtype), to_string(c.op.dtype),
             c.op.dtype == DType::fp32 ? "" : " or partials=fp32");
  } else if (s.partials != c.op.dtype && (s.reduction == Reduction::nccl || !c.op.makes_terms())) {
    c.refuse("partials={} has no effect where {}: take partials={}", to_string(s.partials),
             c.op.makes_terms() ? "collectives add in the operator's type" : "nothing is added",
             to_string(c.op.dtype));
  }
}

namespace {

// A run of fewer rows leaves out what tasks would do to the others. NCCL's collectives and copy
// engines move whole pieces, which must not reach the caller's tensors. Low-latency collectives
// leave out what is not there, and what a library multiplies besides stays on its rank.
void check_rows(Case& c) {
  const Schedule& s = c.schedule;
  if (s.rows != RowCount::bucket || c.op.ranks <= 1) return;
  if (c.op.owns_rows() && c.op.m % c.op.ranks != 0) {
    // Fewer rows may reach further ranks than more rows do: 8 over 7 ranks are 2 2 2 2, 6 are one
    // each.
    c.refuse("rows=bucket for m={} over {} ranks, whose shards must be equal: take m={}", c.op.m,
             c.op.ranks, c.op.row_shards().block() * c.op.ranks);
  }
  if (s.collectives == CollectivesBy::low_latency) {
    if (s.gemm != GemmBy::tiles) return;  // few rows are refused by themselves
    c.refuse(
        "rows=bucket with collectives=low-latency and gemm={}, whose tiles are where those of all "
        "rows would be: take gemm=library or rows=fixed",
        to_string(s.gemm));
  } else if (s.mover == Mover::nccl) {
    c.refuse(
        "rows=bucket with mover=nccl, whose collectives move whole pieces: take rows=fixed or "
        "mover={}",
        c.op.makes_terms() ? "epilogue" : "comm-blocks");
  } else if (s.mover == Mover::copy_engine && s.reduction == Reduction::two_shot) {
    c.refuse(
        "rows=bucket with reduction=two-shot by copy engines, which move whole pieces into the "
        "output: take rows=fixed or mover=epilogue");
  }
}

}  // namespace

// The tiles of two weights are computed side by side in one, and joined where they are.
void check_pair(Case& c) {
  const Schedule& s = c.schedule;
  if (c.op.weights <= 1) return;
  const auto refuse = [&](std::string_view key, int value) {
    c.refuse("{}={} with two weights, whose tiles are joined as they are computed: take {}=1", key,
             value, key);
  };
  if (s.split_k > 1) refuse("split-k", s.split_k);
  // The second product multiplies rows of one matrix, while the ranges of ranks lie in two.
  if (s.k_phases > 1 && c.op.exchanges()) refuse("k-phases", s.k_phases);
  if (s.cluster > 1) refuse("cluster", s.cluster);
  if (s.tile_n % 2 != 0 || s.tile_n < 2 * kMinTile) {
    c.refuse(
        "tile={}x{} for two weights, each of which has half of the columns: take an even "
        "number of at least {}",
        s.tile_m, s.tile_n, 2 * kMinTile);
  }
}

void check_moves(Case& c) {
  check_gathers(c);
  check_cluster(c);
  check_mover(c);
  check_sync(c);
  check_order(c);
  check_reduction(c);
  check_rows(c);
  check_pair(c);
  check_libraries(c);
}

}  // namespace stretto
