#include "tune/rows_in_memory.h"

#include <algorithm>

#include "stretto/buckets.h"
#include "stretto/schedule.h"

namespace stretto {
namespace {

constexpr int64_t kMostWholeRows = 256;
// bench/results/rows_in_memory_h200_x2.json: reductions 0 to 0.3 us, gathers of 16 rows 1 to 1.2.
constexpr double kReadUs = 0.25;  // a load that everything else waits for
constexpr double kCopyUs = 0.7;   // a kernel of a graph behind another, until it stores

// Where no collective is behind the product.
bool copies_result(const Segment& op) { return !op.makes_terms() || op.ranks == 1; }

}  // namespace

bool serves_from(const Schedule& schedule, const Segment& op, RowsFrom from) {
  if (from == RowsFrom::host || schedule.gemm == GemmBy::tiles) return true;
  if (schedule.gemm == GemmBy::few_rows) return false;  // it sends all rows of a plan
  if (schedule.collectives != CollectivesBy::low_latency) return false;
  if (copies_result(op) && op.local_n() * num_bytes(op.dtype) % kLowLatencyBytes != 0) return false;
  return op.m <= std::max(kMostWholeRows, bucket_of(op.kind, op.ranks, 1));
}

double us_beyond_measured(const Schedule& schedule, const Segment& op, const Machine& machine,
                          RowsFrom from) {
  if (from == RowsFrom::host || schedule.gemm == GemmBy::tiles) return 0;
  if (!copies_result(op)) return kReadUs;
  const auto copied = static_cast<double>(op.m * op.local_n() * num_bytes(op.dtype));
  return kReadUs + kCopyUs + 2 * copied / (machine.hbm_gb_per_s * 1e3);
}

}  // namespace stretto
