// What makes a schedule impossible. Each rule is a function; all of them always speak.
#include <fmt/format.h>

#include <algorithm>

#include "schedule/low_latency.h"
#include "schedule/plan_size.h"
#include "stretto/schedule.h"

namespace stretto {
namespace {

constexpr int kMaxChunks = 1024;
constexpr int kMaxSwizzle = 1024;
constexpr int kMaxGroups = 1024;
constexpr int kMaxGroupWaves = 1 << 20;
constexpr int kMaxSplitK = 16, kMaxPhases = 16;
constexpr int kMinTile = 8, kMaxTile = 512, kTileStep = 8;

struct Case {
  const Operator& op;
  const Schedule& schedule;
  const Machine& machine;
  std::vector<std::string> reasons;

  template <typename... Args>
  void refuse(fmt::format_string<Args...> format, Args&&... args) {
    reasons.push_back(fmt::format(format, std::forward<Args>(args)...));
  }
};

void check_numbers(Case& c) {
  const Schedule& s = c.schedule;
  const auto check_tile = [&](std::string_view side, int size) {
    if (size < kMinTile || size > kMaxTile || size % kTileStep != 0) {
      c.refuse("a tile of {} {}; it must be a multiple of {} from {} to {}", size, side, kTileStep,
               kMinTile, kMaxTile);
    }
  };
  check_tile("rows", s.tile_m);
  check_tile("columns", s.tile_n);
  if (s.swizzle < 1 || s.swizzle > kMaxSwizzle) {
    c.refuse("swizzle={}; it must be from 1 to {}", s.swizzle, kMaxSwizzle);
  }
  if (s.chunks < 1 || s.chunks > kMaxChunks) {
    c.refuse("chunks={}; it must be from 1 to {}", s.chunks, kMaxChunks);
  } else if (s.chunks > 1 && s.granularity != Granularity::chunk) {
    c.refuse("chunks={} cuts nothing at granularity={}: take granularity=chunk or chunks=1",
             s.chunks, to_string(s.granularity));
  }
  if (!s.groups.empty() && s.granularity != Granularity::waves) {
    c.refuse("groups mean nothing at granularity={}: take granularity=waves or groups=auto",
             to_string(s.granularity));
  }
  if (s.groups.size() > static_cast<size_t>(kMaxGroups)) {
    c.refuse("{} wave groups; at most {} can be given", s.groups.size(), kMaxGroups);
  }
  for (const int waves : s.groups) {
    if (waves >= 1 && waves <= kMaxGroupWaves) continue;
    c.refuse("a group of {} waves; each must have from 1 to {}", waves, kMaxGroupWaves);
    break;
  }
}

// Every range of K has at least one step, and every range's sums of all rows are kept.
void check_ranges_of_k(Case& c, std::string_view name, int ranges, int most, bool op_good) {
  if (ranges < 1 || ranges > most) {
    c.refuse("{}={}; it must be from 1 to {}", name, ranges, most);
    return;
  }
  if (ranges == 1 || !op_good) return;
  const int64_t steps = (c.op.local_k() + kSplitStep - 1) / kSplitStep;
  if (ranges > steps) {
    c.refuse("{0}={1} for {2} of K on a rank, which has {3} of {4} columns: take {0}={5}{6}", name,
             ranges, c.op.local_k(), steps == 1 ? "one step" : fmt::format("{} steps", steps),
             kSplitStep, steps, steps == 1 ? "" : " or less");
  }
  if (c.op.m > INT32_MAX / ranges) {
    c.refuse("{0}={1} for m={2} keeps more than {3} rows of partial sums: take {0}=1", name, ranges,
             c.op.m, INT32_MAX);
  }
}

// Phases of K are what movers push of rows, so that tiles need not wait for the whole of them.
void check_phases(Case& c) {
  const Schedule& s = c.schedule;
  if (s.k_phases <= 1) return;
  if (c.op.reduces()) {
    c.refuse("k-phases={} cuts the rows that a gather pushes: take k-phases=1 for {}", s.k_phases,
             to_string(c.op.kind));
  } else if (s.mover == Mover::nccl) {
    c.refuse(
        "k-phases={} with mover=nccl, whose collectives move whole rows: take k-phases=1, or "
        "mover=comm-blocks or copy-engine",
        s.k_phases);
  } else if (s.granularity != Granularity::tile && s.granularity != Granularity::slice) {
    c.refuse(
        "k-phases={} at granularity={}, whose tiles wait for more than their own rows: take "
        "k-phases=1, or granularity=tile or slice",
        s.k_phases, to_string(s.granularity));
  }
}

void check_machine(Case& c) {
  const Schedule& s = c.schedule;
  const Machine& machine = c.machine;
  if (c.op.ranks > machine.ranks()) {
    c.refuse("{} ranks on {}, which has {}: take ranks={} or a larger machine", c.op.ranks,
             machine.name, machine.ranks(), machine.ranks());
  }
  if (s.comm_sms < 0) c.refuse("comm-sms={}; it must be at least 0", s.comm_sms);
  if (s.comm_sms >= machine.sms) {
    c.refuse("comm-sms={} leaves no SM to compute on: {} has {}, take at most {}", s.comm_sms,
             machine.name, machine.sms, machine.sms - 1);
  }
  if (s.mover == Mover::comm_blocks && s.comm_sms == 0) {
    c.refuse("mover=comm-blocks without an SM to run on: take comm-sms=1 or more");
  }
  // A persistent GEMM that waits for NCCL must leave it room, or neither ever ends.
  if (s.mover == Mover::nccl && s.sync != Sync::event && !c.op.reduces() &&
      s.comm_sms < machine.nccl_sms) {
    c.refuse(
        "tiles wait for NCCL, which needs {} SMs of its own on {}: take comm-sms={} or sync=event",
        machine.nccl_sms, machine.name, machine.nccl_sms);
  }
}

void check_reduction(Case& c) {
  const Schedule& s = c.schedule;
  const auto refuse = [&](std::string_view right) {
    c.refuse("reduction={} is not for {}: take {}", to_string(s.reduction), to_string(c.op.kind),
             right);
  };
  const bool by_nccl = s.mover == Mover::nccl;
  switch (c.op.kind) {
    case OpKind::ag_gemm:
      if (s.reduction != Reduction::none) refuse("reduction=none, there is nothing to add");
      break;
    case OpKind::gemm_rs:
      if (s.reduction != Reduction::slots && s.reduction != Reduction::nccl) {
        refuse(by_nccl ? "reduction=nccl" : "reduction=slots");
      }
      break;
    case OpKind::gemm_ar:
      if (s.reduction != Reduction::one_shot && s.reduction != Reduction::two_shot &&
          s.reduction != Reduction::nccl) {
        refuse(by_nccl ? "reduction=nccl" : "reduction=two-shot or one-shot");
      }
      break;
  }
  if (by_nccl && c.op.reduces() && s.reduction != Reduction::nccl) {
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
  } else if (s.partials != c.op.dtype && (s.reduction == Reduction::nccl || !c.op.reduces())) {
    c.refuse("partials={} has no effect where {}: take partials={}", to_string(s.partials),
             c.op.reduces() ? "collectives add in the operator's type" : "nothing is added",
             to_string(c.op.dtype));
  }
}

void check_mover(Case& c) {
  const Schedule& s = c.schedule;
  if (s.mover == Mover::epilogue && !c.op.reduces()) {
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

void check_sync(Case& c) {
  const Schedule& s = c.schedule;
  if (s.sync == Sync::event && s.granularity != Granularity::whole &&
      s.granularity != Granularity::chunk) {
    c.refuse(
        "sync=event ends the kernel for every {}: take sync=counter or flag, or granularity=chunk",
        s.granularity == Granularity::waves ? "group" : to_string(s.granularity));
  }
}

void check_order(Case& c) {
  const Schedule& s = c.schedule;
  const bool for_gather = s.order == Order::own_first || s.order == Order::arrival;
  if (for_gather && c.op.reduces()) {
    c.refuse("order={} follows gathered input: take order=peer-staggered for {}",
             to_string(s.order), to_string(c.op.kind));
  }
  const bool for_owners = s.order == Order::peer_staggered || s.order == Order::interleaved;
  if (for_owners && !c.op.reduces()) {
    c.refuse("order={} follows the owners of output: take order=own-first for {}",
             to_string(s.order), to_string(c.op.kind));
  }
  if (s.order == Order::arrival && s.mover == Mover::nccl) {
    c.refuse("order=arrival with mover=nccl, which delivers all ranks' rows together: take plain");
  }
  if (s.granularity == Granularity::waves && s.order != Order::plain) {
    c.refuse("granularity=waves stores tiles in plain order: take order=plain instead of {}",
             to_string(s.order));
  }
}

// A run of fewer rows leaves out what tasks would do to the others. NCCL's collectives and copy
// engines move whole pieces, which must not reach the caller's tensors. Low-latency collectives are
// told by the host how many rows there are, and so is a library.
void check_rows(Case& c) {
  const Schedule& s = c.schedule;
  if (s.rows != RowCount::bucket || c.op.ranks <= 1) return;
  if (c.op.kind != OpKind::gemm_ar && c.op.m % c.op.ranks != 0) {
    // Fewer rows may reach further ranks than more rows do: 8 over 7 ranks are 2 2 2 2, 6 are one
    // each.
    c.refuse("rows=bucket for m={} over {} ranks, whose shards must be equal: take m={}", c.op.m,
             c.op.ranks, c.op.row_shards().block() * c.op.ranks);
  }
  if (s.collectives == CollectivesBy::low_latency) {
    if (s.gemm == GemmBy::library) return;
    c.refuse(
        "rows=bucket with collectives=low-latency and gemm={}, whose tiles are where those of all "
        "rows would be: take gemm=library or rows=fixed",
        to_string(s.gemm));
  } else if (s.mover == Mover::nccl) {
    c.refuse(
        "rows=bucket with mover=nccl, whose collectives move whole pieces: take rows=fixed or "
        "mover={}",
        c.op.reduces() ? "epilogue" : "comm-blocks");
  } else if (s.mover == Mover::copy_engine && s.reduction == Reduction::two_shot) {
    c.refuse(
        "rows=bucket with reduction=two-shot by copy engines, which move whole pieces into the "
        "output: take rows=fixed or mover=epilogue");
  }
}

// Another choice of a library's is one of those that it proposes.
void check_algorithm(Case& c) {
  const Schedule& s = c.schedule;
  if (s.algorithm < 0 || s.algorithm >= kMostAlgorithms) {
    c.refuse("algorithm={}; it must be from 0 to {}", s.algorithm, kMostAlgorithms - 1);
  } else if (s.algorithm != 0 && s.gemm != GemmBy::library) {
    c.refuse("algorithm={} is one of cuBLAS's, not of gemm={}: take gemm=library or algorithm=0",
             s.algorithm, to_string(s.gemm));
  }
}

// A library is told whole products, which begin and end with its kernel.
void check_gemm(Case& c) {
  const Schedule& s = c.schedule;
  if (s.gemm == GemmBy::tiles) return;
  const auto refuse = [&](std::string_view key, std::string_view value, std::string_view why,
                          std::string_view right) {
    c.refuse("gemm=library with {}={}, {}: take gemm=tiles or {}", key, value, why, right);
  };
  const bool parts = s.granularity != Granularity::whole && s.granularity != Granularity::chunk;
  if (s.sync != Sync::event) {
    refuse("sync", to_string(s.sync), "which a library's kernels know nothing of",
           parts ? "sync=event,granularity=chunk" : "sync=event");
  } else if (parts) {
    refuse("granularity", to_string(s.granularity), "which ends within its kernel",
           "granularity=chunk");
  }
  if (s.mover != Mover::nccl && s.mover != Mover::copy_engine) {
    refuse("mover", to_string(s.mover), "whose blocks work beside tiles",
           "mover=nccl or copy-engine");
  }
  if (s.split_k > 1)
    refuse("split-k", fmt::format("{}", s.split_k), "which it chooses", "split-k=1");
  if (s.k_phases > 1) {
    refuse("k-phases", fmt::format("{}", s.k_phases), "which cut its sums", "k-phases=1");
  }
  if (s.rows != RowCount::fixed && s.collectives != CollectivesBy::low_latency) {
    refuse("rows", to_string(s.rows), "whose collectives move the rows of a plan",
           "rows=fixed or collectives=low-latency");
  }
}

// The device language's collectives take the place of NCCL's as they stand in `sequential`: all
// rows at once, between ranks that reach each other's memory.
void check_collectives(Case& c) {
  const Schedule& s = c.schedule;
  if (s.collectives == CollectivesBy::nccl) return;
  const std::string_view value = to_string(s.collectives);
  if (s.mover != Mover::nccl) {
    c.refuse("collectives={} with mover={}, which makes none: take mover=nccl or collectives=nccl",
             value, to_string(s.mover));
  }
  if (s.granularity != Granularity::whole) {
    c.refuse(
        "collectives={} at granularity={}, which cuts them into parts: take granularity=whole "
        "or collectives=nccl",
        value, to_string(s.granularity));
  }
  if (const std::string why = why_no_low_latency(c.op, c.machine, s.rows); !why.empty()) {
    c.refuse("collectives={}: {}: take collectives=nccl", value, why);
  }
}

void check_size(Case& c) {
  const double size = estimate_instrs(c.op, c.schedule);
  if (size <= kMaxPlanInstrs) return;
  Schedule largest = c.schedule;
  largest.tile_m = largest.tile_n = kMaxTile;
  const bool tile_helps = estimate_instrs(c.op, largest) <= kMaxPlanInstrs;
  c.refuse(
      "a plan of about {:.0f} million instructions; at most {:.0f} million are served: take {}",
      size / 1e6, kMaxPlanInstrs / 1e6,
      tile_helps ? "a larger tile, like " + suggest_tile(c.op, c.schedule, kMaxTile)
                 : "fewer ranks or chunks, or a smaller operator");
}

}  // namespace

std::vector<std::string> legal(const Operator& op, const Schedule& schedule,
                               const Machine& machine) {
  Case c{op, schedule, machine, problems(op)};
  const bool op_good = c.reasons.empty();
  check_numbers(c);
  check_ranges_of_k(c, "split-k", schedule.split_k, kMaxSplitK, op_good);
  check_ranges_of_k(c, "k-phases", schedule.k_phases, kMaxPhases, op_good);
  check_phases(c);
  check_machine(c);
  check_mover(c);
  check_sync(c);
  check_order(c);
  check_reduction(c);
  check_rows(c);
  check_gemm(c);
  check_algorithm(c);
  check_collectives(c);
  const bool tile_good = schedule.tile_m >= kMinTile && schedule.tile_n >= kMinTile;
  if (op_good && tile_good) check_size(c);
  return std::move(c.reasons);
}

}  // namespace stretto
