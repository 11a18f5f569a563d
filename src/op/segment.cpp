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
    if (op.makes_terms() || op.exchanges_input()) {
      check_sharded(reasons, op, 'k', op.k);
    } else if (op.communicates() || op.kind.weight != Held::whole) {
      check_sharded(reasons, op, 'n', op.n);
    }
  }
  return reasons;
}

namespace {

// Bytes that leave a rank for an edge at a matrix of so many columns. Experts are as likely, and
// every rank has as many. What a rank has of its own stays.
double edge_bytes(const Segment& op, Edge edge, int64_t columns) {
  const EdgeKind& kind = kind_of(edge);
  const double share = static_cast<double>(op.ranks - 1) / op.ranks;
  const double chosen = 1 - std::pow(1 - 1.0 / op.ranks, static_cast<double>(op.top_k));
  const double bytes = kind.times_sent * share * (kind.goes_by_ids ? chosen : 1) *
                       static_cast<double>(op.m) * static_cast<double>(columns) *
                       static_cast<double>(num_bytes(op.dtype));
  return kind.exchanges ? bytes / op.ranks : bytes;
}

}  // namespace

void validate(const Segment& op) {
  const std::vector<std::string> reasons = problems(op);
  if (!reasons.empty()) {
    throw UsageError(fmt::format("{}: {}", to_string(op.kind), join(reasons, "; ")));
  }
}

double link_bytes(const Segment& op) {
  return edge_bytes(op, op.kind.in, op.k) + edge_bytes(op, op.kind.out, op.n);
}

double flops_per_rank(const Segment& op) {
  if (op.looks_up()) return 0;
  return 2.0 * op.weights * static_cast<double>(op.m * op.top_k) * static_cast<double>(op.n) *
         static_cast<double>(op.k) / (op.on_every_rank ? 1 : op.ranks);
}

}  // namespace stretto
