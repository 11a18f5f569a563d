#include "launch/cublas_gemms.h"

#include <fmt/format.h>

#include <algorithm>

#include "launch/buffer_places.h"
#include "stretto/schedule.h"

namespace stretto::cuda {
namespace {

template <typename Predicate>
bool any_gemm_of_cublas(const Plan& plan, const Predicate& holds) {
  if (!plan.any_library()) return false;
  for (const Lane& lane : plan.lanes) {
    size_t boundaries = 0;
    for (const Instr& instr : lane.instrs) {
      boundaries += instr.op == Opcode::boundary;
      const bool by_cublas = plan.library_at(boundaries) && !plan.few_rows_at(boundaries);
      if (instr.op == Opcode::gemm && by_cublas && holds(instr)) return true;
    }
  }
  return false;
}

}  // namespace

bool takes_cublas(const Plan& plan) {
  return any_gemm_of_cublas(plan, [](const Instr&) { return true; });
}

bool multiplies_into_result(const Plan& plan) {
  return any_gemm_of_cublas(plan, [&](const Instr& gemm) {
    const auto writes = plan.writes(gemm);
    return std::any_of(writes.begin(), writes.end(), [&](const Region& to) {
      return plan.buffers[to.buffer].role == BufferRole::output;
    });
  });
}

std::string why_no_copy_of_rows(const Plan& plan) {
  if (!multiplies_into_result(plan)) return "";
  for (const Buffer& buffer : plan.buffers) {
    const auto bytes = static_cast<int64_t>(row_bytes_of(buffer));
    if (buffer.role != BufferRole::output || bytes % kLowLatencyBytes == 0) continue;
    return fmt::format(
        "of a library's result the rows that there are are copied in pieces of {} bytes, and rows "
        "have {}: say the rows from the host, or take other columns",
        kLowLatencyBytes, bytes);
  }
  return "";
}

}  // namespace stretto::cuda
