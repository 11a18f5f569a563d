// The products of a rank's runs that are of few rows: their kernel sends what it has multiplied to
// the collective behind it, which only receives.
#include <algorithm>

#include "run/rank_streams.h"
#include "stretto/error.h"

namespace stretto::runtime {

using cuda::Stream;

void RankStreams::add_few_rows(uint32_t kernel) {
  const std::vector<cuda::Product> found =
      cuda::products_of(setup_.plan, setup_.program.gemms[kernel]);
  STRETTO_ASSERT(found.size() == 1, "a kernel of few rows has one product");
  const cuda::Product& product = found.front();
  FewRowsProduct& made = few_rows_[kernel];
  made.kernel =
      &setup_.kernels.few_rows(setup_.device, cuda::few_rows_config(setup_.plan, product));
  const auto is_given = [&](const Region& region) {
    return setup_.plan.buffers[region.buffer].role == BufferRole::input;
  };
  made.are_weights_given = is_given(product.b) && (!product.beside || is_given(*product.beside));
  for (int set = 0; set < sets_; ++set) {
    const auto matrix_of = [&](const Region& region) {
      const Buffer& buffer = setup_.plan.buffers[region.buffer];
      return cuda::Matrix{cuda::address_of(setup_.places, region.rank, region.buffer, set) +
                              cuda::offset_of(buffer, region.row0, region.col0),
                          region.rows(), region.cols(), buffer.cols, buffer.dtype};
    };
    FewRowsProduct::Matrices& all = made.by_set.emplace_back();
    all = {{matrix_of(product.a), matrix_of(product.b)}, matrix_of(product.c)};
    if (product.beside) all.of.beside = matrix_of(*product.beside);
    for (size_t i = 0; i < product.bias.size(); ++i) {
      if (product.bias[i]) all.of.bias[i] = matrix_of(*product.bias[i]);
    }
    alternates_ = alternates_ || made.by_set.back() != made.by_set.front();
  }
}

void RankStreams::send_product(const Op& op, const Stream& stream, int set,
                               const RowsOfCall& rows) const {
  const FewRowsProduct& product = few_rows_.at(op.index);
  auto [of, to] = product.by_set[static_cast<size_t>(set)];
  for (cuda::Matrix* matrix :
       {&of.tokens, &of.weights, &of.beside, &of.bias[0], &of.bias[1], &to}) {
    *matrix = cuda::at_call(*matrix, call_.places);
  }
  STRETTO_ASSERT(rows.at == 0, "rows of this product are the host's to say");
  if (rows.rows != 0) of.tokens.rows = rows.rows;
  // A kernel of a collective waits for its stream itself, and lets the next one start before it has
  // ended; it writes none of the weights that a caller gives, nor does another product of few rows.
  // A run's first kernel is behind the caller's, which may write them: its weights are never early.
  // Nor are those behind a collective of no rows, for which nothing is launched.
  const auto at = static_cast<size_t>(&op - ops_.data());
  const bool is_behind = at > 0 && ops_[at - 1].stream == op.stream;
  const bool is_behind_sums =
      is_behind && ops_[at - 1].kind == StreamOp::collective && setup_.low_latency != nullptr &&
      low_latency_[ops_[at - 1].index].by_set[static_cast<size_t>(set)].count != 0;
  const bool is_behind_product = is_behind && ops_[at - 1].kind == StreamOp::gemm &&
                                 setup_.program.needs[ops_[at - 1].index].few_rows;
  const bool overlaps = starts_early(op) || (kernels_overlap_ && is_behind_sums);
  const bool weights_early =
      overlaps && (is_behind_sums || is_behind_product) && product.are_weights_given;
  if (!product.receiver) {
    product.kernel->launch(stream, of, cuda::row_targets(to), 0, 1, overlaps, weights_early);
    return;
  }
  const LowLatencyOp& sums = low_latency_[*product.receiver];
  const device::RowTargets targets =
      setup_.low_latency->targets(sums.id, setup_.rank, call_of(sums, set, rows));
  product.kernel->launch(stream, of, targets, setup_.rank, setup_.plan.ranks(), overlaps,
                         weights_early);
}

// Others begin behind all that their stream did, whenever they are started.
bool RankStreams::receives_early(const Op& op, int set, const cuda::LowLatencyCall& call) const {
  const auto product = std::find_if(few_rows_.begin(), few_rows_.end(), [&](const auto& one) {
    return one.second.receiver == op.index;
  });
  if (product == few_rows_.end()) return true;
  const auto at = static_cast<size_t>(&op - ops_.data());
  if (at == 0 || ops_[at - 1].kind != StreamOp::gemm || ops_[at - 1].index != product->first ||
      ops_[at - 1].stream != op.stream) {
    return false;
  }
  const auto bytes = static_cast<uint64_t>(call.count * num_bytes(call.dtype));
  const std::array results = {call.to, call.normed};  // or 0
  const auto is_written = [&](cuda::Matrix matrix) {
    matrix = cuda::at_call(matrix, call_.places);
    const auto end = matrix.address +
                     static_cast<uint64_t>(matrix.rows * matrix.stride * num_bytes(matrix.dtype));
    return std::any_of(results.begin(), results.end(),
                       [&](cuda::DevicePtr to) { return to < end && matrix.address < to + bytes; });
  };
  const cuda::FewRowsOperands& of = product->second.by_set[static_cast<size_t>(set)].of;
  const std::array reads = {of.tokens, of.weights, of.beside, of.bias[0], of.bias[1]};
  return std::none_of(reads.begin(), reads.end(), is_written);
}

}  // namespace stretto::runtime
