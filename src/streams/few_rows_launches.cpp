#include "streams/few_rows_launches.h"

#include <algorithm>
#include <array>

#include "stretto/error.h"
#include "tables/call_lists.h"

namespace stretto::runtime {

using cuda::Stream;

void FewRowsLaunches::add(uint32_t kernel, const cuda::Product& product) {
  Product& made = by_kernel_[kernel];
  made.kernel =
      &setup_.kernels.few_rows(setup_.device, cuda::few_rows_config(setup_.plan, product));
  const auto is_given = [&](const Region& region) {
    return setup_.plan.buffers[region.buffer].role == BufferRole::input;
  };
  made.are_weights_given = is_given(product.b) && (!product.beside || is_given(*product.beside));
  for (int set = 0; set < setup_.sets; ++set) {
    const auto matrix_of = [&](const Region& region) {
      const Buffer& buffer = setup_.plan.buffers[region.buffer];
      return cuda::Matrix{cuda::address_of(setup_.places, region.rank, region.buffer, set) +
                              cuda::offset_of(buffer, region.row0, region.col0),
                          region.rows(), region.cols(), buffer.cols, buffer.dtype};
    };
    Matrices& all = made.by_set.emplace_back();
    all = {{matrix_of(product.a), matrix_of(product.b)}, matrix_of(product.c)};
    if (product.beside) all.of.beside = matrix_of(*product.beside);
    for (size_t i = 0; i < product.bias.size(); ++i) {
      if (product.bias[i]) all.of.bias[i] = matrix_of(*product.bias[i]);
    }
  }
}

bool FewRowsLaunches::alternates() const {
  return std::any_of(by_kernel_.begin(), by_kernel_.end(), [](const auto& one) {
    const std::vector<Matrices>& by_set = one.second.by_set;
    return std::any_of(by_set.begin(), by_set.end(),
                       [&](const Matrices& of_set) { return of_set != by_set.front(); });
  });
}

void FewRowsLaunches::launch(uint32_t kernel, const Stream& stream, int set, const RowsOfCall& rows,
                             cuda::CallPlaces places, bool overlap, bool weights_early) const {
  const Product& product = by_kernel_.at(kernel);
  auto [of, to] = product.by_set[static_cast<size_t>(set)];
  for (cuda::Matrix* matrix :
       {&of.tokens, &of.weights, &of.beside, &of.bias[0], &of.bias[1], &to}) {
    *matrix = cuda::at_call(*matrix, places);
  }
  STRETTO_ASSERT(rows.at == 0, "rows of this product are the host's to say");
  if (rows.rows != 0) of.tokens.rows = rows.rows;
  weights_early = weights_early && product.are_weights_given;
  if (product.receiver) {
    product.kernel->launch(stream, of, collectives_.targets(*product.receiver, set, rows, places),
                           setup_.rank, setup_.plan.ranks(), overlap, weights_early);
  } else {
    product.kernel->launch(stream, of, cuda::row_targets(to), 0, 1, overlap, weights_early);
  }
}

std::optional<uint32_t> FewRowsLaunches::sender(uint32_t receiver) const {
  const auto found = std::find_if(by_kernel_.begin(), by_kernel_.end(),
                                  [&](const auto& one) { return one.second.receiver == receiver; });
  if (found == by_kernel_.end()) return std::nullopt;
  return found->first;
}

bool FewRowsLaunches::is_clear_of(uint32_t kernel, int set, const cuda::LowLatencyCall& call,
                                  cuda::CallPlaces places) const {
  const auto bytes = static_cast<uint64_t>(call.count * num_bytes(call.dtype));
  const std::array results = {call.to, call.normed};  // or 0
  const auto is_written = [&](cuda::Matrix matrix) {
    matrix = cuda::at_call(matrix, places);
    const auto end = matrix.address +
                     static_cast<uint64_t>(matrix.rows * matrix.stride * num_bytes(matrix.dtype));
    return std::any_of(results.begin(), results.end(),
                       [&](cuda::DevicePtr to) { return to < end && matrix.address < to + bytes; });
  };
  const cuda::FewRowsOperands& of = by_kernel_.at(kernel).by_set[static_cast<size_t>(set)].of;
  const std::array reads = {of.tokens, of.weights, of.beside, of.bias[0], of.bias[1]};
  return std::none_of(reads.begin(), reads.end(), is_written);
}

}  // namespace stretto::runtime
