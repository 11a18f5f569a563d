// What schedules can leave to others than their tiles: products to a library or to the kernel of
// few rows, collectives to low-latency kernels.
#include "schedule/few_rows.h"
#include "schedule/legal_rules.h"
#include "schedule/low_latency.h"

namespace stretto {

namespace {

// The kernel of few rows goes with low-latency collectives: it sends to where they await what has
// been multiplied, begins beside a gather, or stands between such.
// That these are of all rows at once is said of them, and of the products of all kernels but ours.
void check_few_rows(Case& c) {
  const Schedule& s = c.schedule;
  if (const std::string why = why_no_few_rows(c.op); !why.empty()) {
    c.refuse("gemm=few-rows with {}", why);
    return;
  }
  if (s.collectives != CollectivesBy::low_latency) {
    c.refuse(
        "gemm=few-rows with collectives={}, which it does not go with: take "
        "collectives=low-latency or gemm=library",
        to_string(s.collectives));
  }
}

}  // namespace

// A library, and the kernel of few rows, are told whole products, which begin and end with their
// kernel.
void check_gemm(Case& c) {
  const Schedule& s = c.schedule;
  if (s.gemm == GemmBy::tiles) return;
  const bool few_rows = s.gemm == GemmBy::few_rows;
  if (few_rows && c.op_good) check_few_rows(c);
  const auto refuse = [&](std::string_view key, std::string_view value, std::string_view why,
                          std::string_view right) {
    c.refuse("gemm={} with {}={}, {}: take gemm=tiles or {}", to_string(s.gemm), key, value, why,
             right);
  };
  const bool parts = s.granularity != Granularity::whole && s.granularity != Granularity::chunk;
  if (s.sync != Sync::event) {
    refuse("sync", to_string(s.sync),
           few_rows ? "which its kernel knows nothing of"
                    : "which a library's kernels know nothing of",
           parts ? "sync=event,granularity=chunk" : "sync=event");
  } else if (parts) {
    refuse("granularity", to_string(s.granularity), "which ends within its kernel",
           "granularity=chunk");
  }
  if (s.mover == Mover::epilogue && !c.op.is_routed()) {
    refuse("mover", to_string(s.mover), "which is its kernel's end", "another mover");
  }
  if (s.split_k > 1)
    refuse("split-k", fmt::format("{}", s.split_k), "which it chooses", "split-k=1");
  if (s.k_phases > 1) {
    refuse("k-phases", fmt::format("{}", s.k_phases), "which cut its sums", "k-phases=1");
  }
  if (few_rows && s.rows != RowCount::fixed) {
    refuse("rows", to_string(s.rows), "whose runs may have fewer than its kernel sends",
           "rows=fixed");
  } else if (s.rows != RowCount::fixed && s.collectives != CollectivesBy::low_latency) {
    refuse("rows", to_string(s.rows), "whose collectives move the rows of a plan",
           "rows=fixed or collectives=low-latency");
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

// A kernel that the graph names takes NCCL's place as these do. That there is one of the name, and
// that it is for the product's edge, is asked of the operator (legal_products.cpp).
void check_kernel(Case& c) {
  const Schedule& s = c.schedule;
  if (s.kernel.empty()) return;
  const auto refuse = [&](std::string_view key, std::string_view value, std::string_view why,
                          std::string_view right) {
    c.refuse("kernel={} with {}={}, {}: take {}, or kernel=none", s.kernel, key, value, why, right);
  };
  if (s.mover != Mover::nccl) {
    refuse("mover", to_string(s.mover), "which has no collective that it could make", "mover=nccl");
  }
  if (s.collectives != CollectivesBy::nccl) {
    refuse("collectives", to_string(s.collectives), "whose place it takes", "collectives=nccl");
  }
  if (s.granularity != Granularity::whole) {
    refuse("granularity", to_string(s.granularity), "which cuts collectives into parts",
           "granularity=whole");
  }
  // Its blocks need SMs, which tiles that wait for it inside their kernel would hold.
  if (s.sync != Sync::event) {
    refuse("sync", to_string(s.sync), "which it knows nothing of", "sync=event");
  }
  if (s.rows != RowCount::fixed) {
    refuse("rows", to_string(s.rows), "whose runs may have fewer than it is told of", "rows=fixed");
  }
  if (c.op.is_routed() || c.op.looks_up()) {
    c.refuse("kernel={} at rows that choose their matrices: take kernel=none", s.kernel);
  } else if (const std::string why = why_no_low_latency(c.op, c.machine, RowCount::fixed);
             !why.empty()) {
    c.refuse("kernel={}: {}: take kernel=none", s.kernel, why);
  }
}

void check_libraries(Case& c) {
  check_gemm(c);
  check_algorithm(c);
  check_collectives(c);
}

}  // namespace stretto
