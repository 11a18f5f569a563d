#include "schedule/one_collector.h"

#include <algorithm>

namespace stretto {

void take_nccl_where_any_must(std::span<const OperatorSegment* const> products,
                              std::span<Schedule* const> schedules) {
  const auto any = [&](CollectivesBy by) {
    return std::any_of(schedules.begin(), schedules.end(), [&](const Schedule* one) {
      return one->mover == Mover::nccl && one->collectives == by;
    });
  };
  const bool any_by_ids = std::any_of(products.begin(), products.end(),
                                      [](const auto* one) { return one->product->is_routed(); });
  if (any_by_ids || !any(CollectivesBy::nccl) || !any(CollectivesBy::low_latency)) return;
  for (Schedule* one : schedules) {
    if (one->gemm == GemmBy::few_rows) one->gemm = GemmBy::library;
    one->collectives = CollectivesBy::nccl;
  }
}

}  // namespace stretto
