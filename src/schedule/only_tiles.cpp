#include "schedule/only_tiles.h"

#include <fmt/format.h>

#include <algorithm>

#include "stretto/device/grouped_task.h"

namespace stretto {
namespace {

// The kernel of experts adds no rows of bias.
bool adds_bias(const Operator& op, const OperatorSegment& product) {
  return std::any_of(product.stages.begin(), product.stages.end(),
                     [&](int stage) { return op.stage(stage).kind == StageKind::bias; });
}

// Beside tables the mover kernel has no room for what would follow a library's product in memory.
bool goes_by_tables(const Operator& op) {
  return std::any_of(op.tensors.begin(), op.tensors.end(),
                     [](const Tensor& tensor) { return is_index(tensor.dtype); });
}

}  // namespace

// Besides of shapes (gpu/grouped_kernel.h).
std::string why_no_kernel_of_experts(const Segment& product) {
  using device::kMostExperts, device::kTileK;
  constexpr int64_t kStep = 8;
  const int64_t columns = product.local_n(), k = product.local_k();
  const int64_t own = product.kind.weight == Held::experts
                          ? (product.experts + product.ranks - 1) / product.ranks
                          : product.experts;
  if (columns % kStep == 0 && k > kTileK && own <= kMostExperts) return "";
  return fmt::format(
      "{} experts of {} columns and K of {} on a rank, where their kernel has at most {}, columns "
      "in multiples of {} and K over {}",
      own, columns, k, kMostExperts, kStep, kTileK);
}

std::string why_only_tiles(const Operator& op, const OperatorSegment& product) {
  if (product.product->is_routed()) return adds_bias(op, product) ? "a bias behind experts" : "";
  if (!product.product->is_dense() || product.stages.size() == 1 || !goes_by_tables(op)) return "";
  return fmt::format("{} behind the product, which beside experts and look-ups only tiles do",
                     to_string(op.stage(product.stages.back()).kind));
}

std::string take_tiles_where_only_these_serve(const Operator& op, const OperatorSegment& product,
                                              Schedule& schedule) {
  if (schedule.gemm == GemmBy::tiles) return "";
  std::string why = why_only_tiles(op, product);
  if (why.empty() && product.product->is_routed() && problems(*product.product).empty()) {
    why = why_no_kernel_of_experts(*product.product);
  }
  if (why.empty()) return "";
  schedule.gemm = GemmBy::tiles;
  schedule.algorithm = 0;
  return why;
}

}  // namespace stretto
