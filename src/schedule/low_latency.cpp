#include "schedule/low_latency.h"

#include <fmt/format.h>

namespace stretto {

std::string why_no_low_latency(const Segment& op, const Machine& machine, RowCount rows) {
  if (!problems(op).empty()) return "";  // said elsewhere
  if (op.exchanges()) return "none of them is an all-to-all";
  if (op.teams > 1 && op.ranks > 1) {
    return fmt::format("they are of all ranks, and these of teams of {}", op.ranks);
  }
  if (machine.ranks_per_node > 0 && op.ranks > machine.ranks_per_node) {
    return "across nodes ranks do not reach each other's memory";
  }
  if (op.ranks > kMostLowLatencyRanks) {
    return fmt::format("{} ranks, at most {} are served", op.ranks, kMostLowLatencyRanks);
  }
  const int64_t row = (op.makes_terms() ? op.n : op.k) * num_bytes(op.dtype);
  const int64_t part = !op.owns_rows() ? op.m : op.row_shards().block();
  const bool fits = rows == RowCount::bucket
                        ? row % kLowLatencyBytes == 0
                        : row * part % kLowLatencyBytes == 0 && row * op.m % kLowLatencyBytes == 0;
  if (fits) return "";
  return fmt::format("{} rows of {} bytes are no multiple of {}", part, row, kLowLatencyBytes);
}

}  // namespace stretto
