#include "schedule/gather_order.h"

#include "core/ceil_div.h"
#include "stretto/dtype.h"

namespace stretto {
namespace {

// The widest tile, which wide rows take.
constexpr int64_t kRows = 128, kCols = 256;

}  // namespace

bool is_larger_than_cache(const Segment& op, const Machine& machine) {
  const auto bytes = static_cast<double>(op.product_cols() * op.local_k() * num_bytes(op.dtype));
  return bytes > machine.l2_bytes();
}

bool has_wide_rows(const Segment& op, const Machine& machine) {
  return 5 * op.product_cols() >= 2 * machine.sms * kCols;
}

bool own_tiles_fill(const Segment& op, const Machine& machine) {
  return ceil_div(op.row_shards().block(), kRows) * ceil_div(op.product_cols(), kCols) >=
         machine.sms;
}

bool goes_in_sweeps(const Segment& op, const Machine& machine) {
  return op.gathers() && !op.makes_terms() && has_wide_rows(op, machine) &&
         own_tiles_fill(op, machine) && is_larger_than_cache(op, machine);
}

}  // namespace stretto
