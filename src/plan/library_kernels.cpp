// Which of a plan's products a GPU's library makes, and which the kernel of few rows.
#include <fmt/format.h>

#include <algorithm>

#include "plan/faults.h"
#include "plan/tile_task.h"
#include "stretto/schedule.h"

namespace stretto {
namespace {

std::string fault_in_kernel(int algorithm, bool few_rows) {
  if (few_rows && algorithm != 0) {
    return fmt::format("expected no library's algorithm of 'gemm few-rows', found {}", algorithm);
  }
  if (algorithm >= 0 && algorithm < kMostAlgorithms) return {};
  return fmt::format("expected a library's algorithm from 0 to {}, found {}", kMostAlgorithms - 1,
                     algorithm);
}

// By the number of boundaries before it: whether compute lanes have a gemm there.
std::vector<bool> kernels_of_gemms(const Plan& plan) {
  std::vector<bool> found;
  for (const Lane& lane : plan.lanes) {
    if (lane.kind != LaneKind::compute) continue;
    size_t behind = 0;
    for (const Instr& instr : lane.instrs) {
      if (instr.op == Opcode::boundary) ++behind;
      if (!is_product(instr.op)) continue;
      if (found.size() <= behind) found.resize(behind + 1, false);
      found[behind] = true;
    }
  }
  return found;
}

}  // namespace

const LibraryKernel* Plan::find_kernel(size_t behind) const {
  const auto at = std::lower_bound(
      library_kernels.begin(), library_kernels.end(), behind,
      [](const LibraryKernel& one, size_t most) { return static_cast<size_t>(one.behind) < most; });
  const bool is_there = at != library_kernels.end() && static_cast<size_t>(at->behind) == behind;
  return is_there ? &*at : nullptr;
}

bool Plan::any_few_rows() const {
  return few_rows_gemms || std::any_of(library_kernels.begin(), library_kernels.end(),
                                       [](const LibraryKernel& one) { return one.few_rows; });
}

std::string fault_in_library(const Plan& plan) {
  if (plan.any_few_rows() && !plan.low_latency_collectives) {
    return "expected 'collectives low-latency' with 'gemm few-rows', which sends to these, found "
           "none";
  }
  if (plan.few_rows_gemms && !plan.library_gemms) {
    return "expected few rows of all kernels to be said with library_gemms, found them alone";
  }
  if (plan.library_gemms) {
    if (!plan.library_kernels.empty()) {
      return "expected 'gemm library' of all kernels or of some, found both";
    }
    return fault_in_kernel(plan.library_algorithm, plan.few_rows_gemms);
  }
  if (plan.library_algorithm != 0) {
    return fmt::format("expected no library's algorithm, found {}", plan.library_algorithm);
  }
  if (plan.library_kernels.empty()) return {};
  const std::vector<bool> gemms = kernels_of_gemms(plan);
  int32_t least = 0;
  for (const LibraryKernel& one : plan.library_kernels) {
    if (one.behind < least) {
      return fmt::format("expected kernels of a library in ascending order, found one behind {} {}",
                         one.behind, one.behind == 1 ? "boundary" : "boundaries");
    }
    if (std::string fault = fault_in_kernel(one.algorithm, one.few_rows); !fault.empty()) {
      return fault;
    }
    if (static_cast<size_t>(one.behind) >= gemms.size() ||
        !gemms[static_cast<size_t>(one.behind)]) {
      return fmt::format("expected gemms of compute lanes behind {} {}, found none", one.behind,
                         one.behind == 1 ? "boundary" : "boundaries");
    }
    least = one.behind + 1;
  }
  return {};
}

}  // namespace stretto
