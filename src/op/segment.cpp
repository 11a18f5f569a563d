#include "stretto/segment.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "core/text.h"
#include "op/dealt_columns.h"
#include "stretto/error.h"

namespace stretto {

namespace {

constexpr std::string_view kNames[] = {"ag-gemm",  "gemm-rs",  "gemm-ar",
                                       "col-gemm", "gemm-a2a", "a2a-gemm"};
constexpr ProductKind kKinds[] = {kAgGemm, kGemmRs, kGemmAr, kColGemm, kGemmA2a, kA2aGemm};
static_assert(std::size(kNames) == std::size(kKinds));

}  // namespace

std::string_view to_string(ProductKind kind) {
  const auto found = std::find(std::begin(kKinds), std::end(kKinds), kind);
  return found == std::end(kKinds) ? "product" : kNames[found - std::begin(kKinds)];
}

bool ProductKind::has_name() const {
  return std::find(std::begin(kKinds), std::end(kKinds), *this) != std::end(kKinds);
}

std::optional<ProductKind> product_kind_from(std::string_view text) {
  const auto found = std::find(std::begin(kNames), std::end(kNames), text);
  if (found == std::end(kNames)) return std::nullopt;
  return kKinds[found - std::begin(kNames)];
}

std::span<const std::string_view> product_kind_names() { return kNames; }

namespace {

void check_dim(std::vector<std::string>& reasons, char name, int64_t size) {
  if (size < 1) {
    reasons.push_back(fmt::format("{} is {}; it must be at least 1", name, size));
  } else if (size > kMaxDim) {
    reasons.push_back(fmt::format("{} is {}; it can be at most {}", name, size, kMaxDim));
  }
}

void check_elements(std::vector<std::string>& reasons, std::string_view tensor, int64_t rows,
                    int64_t cols) {
  if (rows * cols > kMaxElements) {
    reasons.push_back(fmt::format("{} has {} x {} elements; a tensor can have at most {}", tensor,
                                  rows, cols, kMaxElements));
  }
}

void check_sharded(std::vector<std::string>& reasons, const Segment& op, char name, int64_t size) {
  const ColShards shares = op.shares_of(size);
  if (shares.are_even() || shares.fit()) return;
  reasons.push_back(fmt::format("{} = {} is sharded over {} ranks {}", name, size, op.ranks,
                                why_not_dealt(shares, fmt::format("{} = ", name))));
}

}  // namespace

std::vector<std::string> problems(const Segment& op) {
  std::vector<std::string> reasons;
  check_dim(reasons, 'm', op.m);
  check_dim(reasons, 'n', op.n);
  check_dim(reasons, 'k', op.k);
  const bool sizes_good = reasons.empty();
  const bool ranks_good = op.ranks >= 1 && op.ranks <= kMaxRanks;
  if (!ranks_good) {
    reasons.push_back(fmt::format("ranks is {}; it must be between 1 and {}", op.ranks, kMaxRanks));
  }
  if (sizes_good) {  // so no product can overflow
    check_elements(reasons, "A [m, k]", op.m, op.k);
    check_elements(reasons, "B [n, k]", op.n, op.k);
    check_elements(reasons, "out [m, n]", op.m, op.n);
  }
  if (sizes_good && ranks_good && op.is_dense()) {
    if (op.makes_terms() || op.kind.in == Edge::all_to_all) {
      check_sharded(reasons, op, 'k', op.k);
    } else if (op.communicates() || op.kind.weight != Held::whole) {
      check_sharded(reasons, op, 'n', op.n);
    }
  }
  return reasons;
}

namespace {

// Every rank has as many experts, all of them as likely.
double routed_link_bytes(const Segment& op) {
  const double others = static_cast<double>(op.ranks - 1) / op.ranks;
  const double tokens = static_cast<double>(op.m) * static_cast<double>(num_bytes(op.dtype));
  const double chosen = 1 - std::pow(1 - 1.0 / op.ranks, static_cast<double>(op.top_k));
  double moved = 0;
  if (op.kind.in == Edge::gather) moved += others * tokens * static_cast<double>(op.k);
  if (op.kind.in == Edge::dispatch) moved += others * chosen * tokens * static_cast<double>(op.k);
  if (op.kind.out == Edge::reduce_scatter) moved += others * tokens * static_cast<double>(op.n);
  if (op.kind.out == Edge::all_reduce) moved += 2 * others * tokens * static_cast<double>(op.n);
  if (op.kind.out == Edge::combine) moved += others * chosen * tokens * static_cast<double>(op.n);
  return moved;
}

}  // namespace

void validate(const Segment& op) {
  const std::vector<std::string> reasons = problems(op);
  if (!reasons.empty()) {
    throw UsageError(fmt::format("{}: {}", to_string(op.kind), join(reasons, "; ")));
  }
}

double link_bytes(const Segment& op) {
  if (op.is_routed()) return routed_link_bytes(op);
  const double share = static_cast<double>(op.ranks - 1) / op.ranks;
  const double bytes = static_cast<double>(num_bytes(op.dtype));
  const double m = static_cast<double>(op.m);
  const double n = static_cast<double>(op.n);
  const double k = static_cast<double>(op.k);
  double moved = 0;
  if (op.gathers()) moved += share * m * k * bytes;
  if (op.kind.out == Edge::reduce_scatter) moved += share * m * n * bytes;
  // Reduce-scatter, then all-gather: the least that leaves every rank.
  if (op.kind.out == Edge::all_reduce) moved += 2 * share * m * n * bytes;
  // What a rank has of its own stays.
  if (op.kind.in == Edge::all_to_all) moved += share * m * k * bytes / op.ranks;
  if (op.kind.out == Edge::all_to_all) moved += share * m * n * bytes / op.ranks;
  return moved;
}

double flops_per_rank(const Segment& op) {
  if (op.looks_up()) return 0;
  return 2.0 * op.weights * static_cast<double>(op.m * op.top_k) * static_cast<double>(op.n) *
         static_cast<double>(op.k) / (op.on_every_rank ? 1 : op.ranks);
}

}  // namespace stretto
