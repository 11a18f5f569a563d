#include "lower/normed_sums.h"

#include <algorithm>

namespace stretto {
namespace {

constexpr int64_t kVectorBytes = 16;  // the kernels move whole ones

}  // namespace

bool is_used_elsewhere(const Operator& op, int tensor, const Stage& user) {
  const auto reads = [&](const Stage& stage) {
    return &stage != &user && std::find(stage.in.begin(), stage.in.end(), tensor) != stage.in.end();
  };
  return op.output_held(tensor).has_value() ||
         std::any_of(op.stages.begin(), op.stages.end(), reads);
}

std::optional<NormedSums> normed_sums(const Operator& op, size_t index, const Schedule& schedule) {
  const OperatorSegment& product = op.segments[index];
  const bool reduces =
      product.product->ranks > 1 && product.product->adds_for_all() && product.stages.size() == 1;
  const bool by_device =
      schedule.mover == Mover::nccl && schedule.granularity == Granularity::whole &&
      schedule.collectives == CollectivesBy::low_latency && schedule.rows == RowCount::fixed;
  if (!reduces || !by_device || index + 1 >= op.segments.size()) return std::nullopt;
  const OperatorSegment& rows = op.segments[index + 1];
  if (rows.product || rows.stages.size() != 2) return std::nullopt;
  const Stage &add = op.stage(rows.stages[0]), &norm = op.stage(rows.stages[1]);
  if (add.kind != StageKind::add || norm.kind != StageKind::norm || add.in.size() != 2 ||
      norm.in[0] != add.out || op.tensor(add.out).held != Held::whole) {
    return std::nullopt;
  }
  const bool is_first = add.in[0] == product.result;
  if ((!is_first && add.in[1] != product.result) || add.in[0] == add.in[1]) return std::nullopt;
  if (op.dtype != DType::bf16 ||
      op.tensor(add.out).cols * num_bytes(op.dtype) % kVectorBytes != 0) {
    return std::nullopt;
  }
  if (is_used_elsewhere(op, product.result, add)) return std::nullopt;
  return NormedSums{add.in[is_first ? 1 : 0], add.out, norm.in[1], norm.out,
                    static_cast<float>(norm.eps)};
}

}  // namespace stretto
