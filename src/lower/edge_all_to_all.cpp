// All-to-all, before or after products that every rank makes of its own rows: which schedules serve
// these, and which patterns their tasks then have.
#include "lower/edge_row.h"
#include "lower/emit_patterns.h"

namespace stretto {
namespace {

std::string_view movers_of(const Segment& op) {
  return op.exchanges_input() ? "mover=comm-blocks, copy-engine or nccl"
                              : "mover=epilogue, comm-blocks, copy-engine or nccl";
}

// Collectives of all rows, or of chunks of them, between kernels.
void check_exchange_by_nccl(Case& c) {
  const Schedule& s = c.schedule;
  const std::string_view kind = to_string(c.op.kind);
  const auto refuse = [&](bool is_set, std::string_view set, std::string_view right) {
    if (!is_set) return;
    c.refuse("{} with mover=nccl and {}, whose all-to-alls stand between kernels: take {}", set,
             kind, right);
  };
  refuse(s.granularity != Granularity::whole && s.granularity != Granularity::chunk,
         fmt::format("granularity={}", to_string(s.granularity)), "granularity=whole or chunk");
  refuse(s.order != Order::plain, fmt::format("order={}", to_string(s.order)), "order=plain");
  refuse(s.sync != Sync::event, fmt::format("sync={}", to_string(s.sync)), "sync=event");
  refuse(s.collectives != CollectivesBy::nccl,
         fmt::format("collectives={}", to_string(s.collectives)), "collectives=nccl");
}

// Behind an all-to-all a phase is what one rank has of K.
void check_sources(Case& c) {
  const Schedule& s = c.schedule;
  if (s.k_phases <= 1) return;
  const auto refuse = [&](std::string_view why, std::string_view right) {
    c.refuse("k-phases={} with {}, {}: take {}", s.k_phases, to_string(c.op.kind), why, right);
  };
  if (!c.op.exchanges_input()) {
    refuse("whose tiles multiply own rows", "k-phases=1");
  } else if (s.mover == Mover::nccl) {
    refuse("of which mover=nccl brings all columns at once",
           "k-phases=1, or mover=comm-blocks or copy-engine");
  } else if (s.granularity != Granularity::tile && s.granularity != Granularity::slice) {
    refuse(fmt::format("whose tiles begin by kernels at granularity={}", to_string(s.granularity)),
           "k-phases=1, or granularity=tile or slice");
  } else if (s.split_k > 1) {
    refuse("whose ranges of K are ranks', not those of split-k", "k-phases=1 or split-k=1");
  } else if (s.k_phases != c.op.ranks) {
    refuse("where a phase is what a rank has of K",
           c.op.ranks == 1 ? "k-phases=1" : fmt::format("k-phases=1 or {}", c.op.ranks));
  } else if (c.op_good && c.op.shares_of(c.op.k).block() % kSplitStep != 0) {
    refuse(fmt::format("of which a rank has {} columns, no multiple of {}",
                       c.op.shares_of(c.op.k).block(), kSplitStep),
           "k-phases=1");
  }
}

void check_exchange(Case& c) {
  const Schedule& s = c.schedule;
  const std::string_view kind = to_string(c.op.kind);
  const bool feeds = c.op.exchanges_input();
  const bool by_nccl = s.mover == Mover::nccl;
  if (by_nccl) check_exchange_by_nccl(c);
  if (feeds && s.mover == Mover::epilogue) {
    c.refuse("mover=epilogue pushes a GEMM's output, but {} communicates its input: take {}", kind,
             movers_of(c.op));
  }
  if (s.granularity == Granularity::waves && !by_nccl) {
    c.refuse(
        "granularity=waves with {}, of which no collective moves groups: take "
        "granularity=tile, slice, chunk or whole",
        kind);
  }
  const bool fits = s.order == Order::plain || s.order == Order::node_then_local ||
                    (feeds ? s.order == Order::arrival
                           : s.order == Order::peer_staggered || s.order == Order::interleaved);
  if (!fits) {
    c.refuse("order={} with {}, whose tiles {}: take order={}", to_string(s.order), kind,
             feeds ? "need columns of every rank" : "are all of own rows",
             feeds ? "arrival, plain or node-then-local"
                   : "peer-staggered, interleaved, plain or node-then-local");
  }
  const auto refuse = [&](bool is_set, std::string_view set, std::string_view why,
                          std::string_view right) {
    if (is_set) c.refuse("{} with {}, {}: take {}", set, kind, why, right);
  };
  check_sources(c);
  refuse(s.own != OwnRows::direct, fmt::format("own={}", to_string(s.own)), "which gathers no rows",
         "own=direct");
  refuse(s.start != Start::tile, fmt::format("start={}", to_string(s.start)),
         "which gathers no rows", "start=tile");
  refuse(s.cluster != 1, fmt::format("cluster={}", s.cluster),
         "whose ranks may have a tile row without a partner", "cluster=1");
  refuse(s.rows != RowCount::fixed, fmt::format("rows={}", to_string(s.rows)),
         "whose ranks send as many rows as its plan says", "rows=fixed");
  refuse(s.gemm != GemmBy::tiles && !by_nccl, fmt::format("gemm={}", to_string(s.gemm)),
         "of which a library is told no part", "gemm=tiles or mover=nccl");
  if (by_nccl) check_gemm(c);
  check_algorithm(c);
  if (!by_nccl) check_collectives(c);
  check_sync(c);
  check_reduction(c);
  check_pair(c);
}

const Pattern& exchange_by(const Segment& op, const Schedule& schedule) {
  const bool by_nccl = schedule.mover == Mover::nccl;
  if (op.turns_columns() && op.exchanges_input()) {
    return by_nccl ? patterns::nccl_rows_to_columns : patterns::rows_to_columns;
  }
  if (op.turns_columns()) {
    return by_nccl ? patterns::nccl_columns_to_rows : patterns::columns_to_rows;
  }
  if (op.exchanges_input()) {
    return by_nccl ? patterns::nccl_exchange_input : patterns::exchange_input;
  }
  return by_nccl ? patterns::nccl_exchange_output : patterns::exchange_output;
}

}  // namespace

const EdgeRow edges::all_to_all{check_exchange, exchange_by};

}  // namespace stretto
