#include "schedule/low_latency.h"

#include <fmt/format.h>

namespace stretto {

// Between two ranks links have the same bytes in one hop and in two; among four, whose sums
// everyone norms, 0.75 MB is where they meet.
int64_t most_of_one_shot(int ranks, bool normed) {
  constexpr int64_t kMostOfTwo = 8 * 1024 * 1024, kMost = 1536 * 1024, kMostNormed = 768 * 1024;
  if (ranks <= 2) return kMostOfTwo;
  return normed ? kMostNormed : kMost;
}

namespace {

// Rows that go to experts' ranks, and come back, by ids.
std::string why_no_chosen_rows(const Segment& op) {
  if (op.ranks == 1) return "one rank moves none";
  if (op.only_moves() && op.kind.weight != Held::experts) return "experts are not dealt to ranks";
  if (op.adds_for_all()) return "sums go to who has the token, not to all";
  if (op.dtype == DType::fp32) return "they move bf16 and fp16, not fp32";
  const int64_t row = (op.kind.out != Edge::none ? op.n : op.k) * num_bytes(op.dtype);
  // Sums that owners' slots hold in another way take as much.
  const int64_t most_bytes = (op.only_moves() ? int64_t{256} : int64_t{1024}) << 20;
  const int64_t slots = 2 * op.ranks * RowShards{op.m, op.ranks}.block() * row;
  if (slots > most_bytes) {
    return fmt::format("each rank would have {} MB of slots for rows, {} at most", slots >> 20,
                       most_bytes >> 20);
  }
  if (row % kLowLatencyBytes == 0) return "";
  return fmt::format("a row of {} bytes is no multiple of {}", row, kLowLatencyBytes);
}

}  // namespace

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
  if (op.is_routed()) return why_no_chosen_rows(op);
  const int64_t row = (op.sends_tiles() ? op.n : op.k) * num_bytes(op.dtype);
  const int64_t part = !op.owns_rows() ? op.m : op.row_shards().block();
  const bool fits = rows == RowCount::bucket
                        ? row % kLowLatencyBytes == 0
                        : row * part % kLowLatencyBytes == 0 && row * op.m % kLowLatencyBytes == 0;
  if (fits) return "";
  return fmt::format("{} rows of {} bytes are no multiple of {}", part, row, kLowLatencyBytes);
}

}  // namespace stretto
