#include "stretto/operator.h"

#include <fmt/format.h>

#include "core/text.h"
#include "stretto/error.h"

namespace stretto {

std::string_view to_string(OpKind kind) {
  switch (kind) {
#define STRETTO_CASE(name, text, description) \
  case OpKind::name:                          \
    return text;
    STRETTO_OPERATORS(STRETTO_CASE)
#undef STRETTO_CASE
  }
  STRETTO_ASSERT(false, "operator kind out of range");
}

std::optional<OpKind> op_kind_from(std::string_view text) {
#define STRETTO_MATCH(name, word, description) \
  if (text == word) return OpKind::name;
  STRETTO_OPERATORS(STRETTO_MATCH)
#undef STRETTO_MATCH
  return std::nullopt;
}

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

void check_sharded(std::vector<std::string>& reasons, const Operator& op, char name, int64_t size) {
  if (size % op.ranks == 0) return;
  const int64_t below = size / op.ranks * op.ranks;
  const int64_t above = below + op.ranks;
  std::string near = fmt::format("{} = {}", name, above);
  if (below > 0) near = fmt::format("{} = {} or {}", name, below, above);
  reasons.push_back(fmt::format("{} = {} is sharded over {} ranks and must divide: take {}", name,
                                size, op.ranks, near));
}

}  // namespace

std::vector<std::string> problems(const Operator& op) {
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
  if (sizes_good && ranks_good) {
    if (op.reduces()) {
      check_sharded(reasons, op, 'k', op.k);
    } else {
      check_sharded(reasons, op, 'n', op.n);
    }
  }
  return reasons;
}

void validate(const Operator& op) {
  const std::vector<std::string> reasons = problems(op);
  if (!reasons.empty()) {
    throw UsageError(fmt::format("{}: {}", to_string(op.kind), join(reasons, "; ")));
  }
}

double link_bytes(const Operator& op) {
  const double share = static_cast<double>(op.ranks - 1) / op.ranks;
  const double bytes = static_cast<double>(num_bytes(op.dtype));
  const double m = static_cast<double>(op.m);
  const double n = static_cast<double>(op.n);
  const double k = static_cast<double>(op.k);
  switch (op.kind) {
    case OpKind::ag_gemm:
      return share * m * k * bytes;
    case OpKind::gemm_rs:
      return share * m * n * bytes;
    case OpKind::gemm_ar:  // reduce-scatter, then all-gather: the least that leaves every rank
      return 2 * share * m * n * bytes;
  }
  STRETTO_ASSERT(false, "operator kind out of range");
}

double flops_per_rank(const Operator& op) {
  return 2.0 * static_cast<double>(op.m) * static_cast<double>(op.n) * static_cast<double>(op.k) /
         op.ranks;
}

}  // namespace stretto
