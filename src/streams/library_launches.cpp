#include "streams/library_launches.h"

#include <algorithm>
#include <utility>

#include "launch/join_products.h"
#include "stretto/error.h"
#include "tables/call_lists.h"

namespace stretto::runtime {

using cuda::LibraryMatmul;
using cuda::Stream;

namespace {

// As if one matrix had the rows of both.
bool lies_behind(const cuda::Matrix& upper, const cuda::Matrix& lower) {
  const auto row_bytes = static_cast<uint64_t>(upper.stride * num_bytes(upper.dtype));
  return lower.stride == upper.stride &&
         lower.address == upper.address + static_cast<uint64_t>(upper.rows) * row_bytes;
}

LibraryMatmul::Places at_call(const LibraryMatmul::Places& of, cuda::CallPlaces places) {
  return {cuda::at_call(of.a, places), cuda::at_call(of.b, places), cuda::at_call(of.c, places)};
}

}  // namespace

// Weights that only calls name may lie behind one another in some of them.
std::vector<LibraryLaunches::MatrixProduct> LibraryLaunches::products_beside(
    const std::vector<cuda::Product>& beside, const MatrixProduct& like, int set) {
  const auto matrix_of = [&](const Region& region) {
    const Buffer& buffer = setup_.plan.buffers[region.buffer];
    return cuda::Matrix{cuda::address_of(setup_.places, region.rank, region.buffer, set) +
                            cuda::offset_of(buffer, region.row0, region.col0),
                        region.rows(), region.cols(), buffer.cols, buffer.dtype};
  };
  const auto made = [&](const cuda::Matrix& a, const cuda::Matrix& b, const cuda::Matrix& c) {
    MatrixProduct one = like;
    one.matrices = {a, b, c};
    choose_matmul(one);
    return one;
  };
  std::vector<cuda::Matrix> weights;
  for (const cuda::Product& one : beside) weights.push_back(matrix_of(one.b));
  const bool at_calls = std::any_of(weights.begin(), weights.end(), [](const cuda::Matrix& one) {
    return cuda::is_stand_in(one.address);
  });
  std::vector<MatrixProduct> by_weight;
  const bool at_once = at_calls || std::adjacent_find(weights.begin(), weights.end(),
                                                      [](const auto& upper, const auto& lower) {
                                                        return !lies_behind(upper, lower);
                                                      }) == weights.end();
  if (beside.size() > 1 && (at_calls || !at_once)) {
    for (size_t i = 0; i < beside.size(); ++i) {
      by_weight.push_back(made(matrix_of(beside[i].a), weights[i], matrix_of(beside[i].c)));
    }
  }
  if (!at_once) return by_weight;
  cuda::Matrix b = weights.front(), c = matrix_of(beside.front().c);
  for (size_t i = 1; i < weights.size(); ++i) {
    b.rows += weights[i].rows;
    c.columns += weights[i].rows;
  }
  std::vector<MatrixProduct> all = {made(matrix_of(beside.front().a), b, c)};
  all.front().by_weight = std::move(by_weight);
  return all;
}

void LibraryLaunches::add(const std::vector<cuda::Product>& products, int algorithm, int sms) {
  library_ = &setup_.kernels.library(setup_.device, setup_.most_proposals);
  if (setup_.serves &&
      (products.size() != 1 || products.front().c.rows() != setup_.plan.op.rows())) {
    throw UsageError("a library serves fewer rows where all of a rank's are one product");
  }
  add_none();
  for (const std::vector<cuda::Product>& beside : cuda::beside_one_another(products)) {
    MatrixProduct like;
    like.of = cuda::product_of_operator(setup_.plan, beside.front());
    const bool is_first = !setup_.first_algorithms.empty() && setup_.first_algorithms[like.of];
    like.algorithm = is_first ? 0 : algorithm;
    like.sms = sms;
    const Buffer& result = setup_.plan.buffers[beside.front().c.buffer];
    like.is_result = result.role == BufferRole::output;
    for (int set = 0; set < setup_.sets; ++set) {
      for (MatrixProduct& one : products_beside(beside, like, set)) {
        by_kernel_.back()[static_cast<size_t>(set)].push_back(std::move(one));
      }
    }
    const auto row_bytes = static_cast<int64_t>(cuda::row_bytes_of(result));
    if (like.is_result && setup_.rows_in_memory && !whole_product_) {
      const Region& c = beside.front().c;
      STRETTO_ASSERT(c.cols() == result.cols, "the product is the whole result");
      whole_product_.emplace(setup_.device, setup_.kernels, c.rows(), row_bytes);
    }
    most_row_bytes_ = std::max(most_row_bytes_, static_cast<size_t>(row_bytes));
  }
}

void LibraryLaunches::take_memory() {
  size_t bytes = 0;
  for (const SharedMatmul& one : matmuls_) bytes = std::max(bytes, one.matmul.workspace_bytes());
  workspace_ = cuda::DeviceMemory(bytes);
  if (setup_.serves) spare_rows_ = cuda::DeviceMemory(most_row_bytes_ * kSpareRows);
}

bool LibraryLaunches::alternates() const {
  for (const auto& by_set : by_kernel_) {
    for (const std::vector<MatrixProduct>& products : by_set) {
      for (size_t i = 0; i < products.size(); ++i) {
        if (products[i].places != by_set.front()[i].places) return true;
      }
    }
  }
  return false;
}

void LibraryLaunches::choose_matmul(MatrixProduct& product) {
  const auto& [a, b, c] = product.matrices;
  product.places = {a.address, b.address, c.address};
  std::array shape = product.matrices;
  for (cuda::Matrix& matrix : shape) matrix.address = cuda::alignment_of(matrix.address);
  const auto is_same = [&](const SharedMatmul& one) {
    return one.shape == shape && one.sms == product.sms && one.algorithm == product.algorithm;
  };
  const auto known = std::find_if(matmuls_.begin(), matmuls_.end(), is_same);
  product.matmul = static_cast<size_t>(known - matmuls_.begin());
  if (known != matmuls_.end()) return;
  // Fewer rows want smaller tiles. A run may have any number of them; and what a small bucket needs
  // is loaded with a large one.
  std::vector<int64_t> steps = {a.rows};
  for (int64_t rows = kFewestRows; setup_.serves && rows < a.rows; rows *= 2) {
    steps.insert(steps.end() - 1, rows);
  }
  matmuls_.push_back({shape, product.sms, product.algorithm,
                      LibraryMatmul(*library_, a, b, c, steps, product.algorithm, product.sms)});
}

// What multiplies tensors that lie as even and without gaps as stand-ins do; for others there may
// be none yet.
size_t LibraryLaunches::matmul_at_call(const MatrixProduct& product,
                                       const LibraryMatmul::Places& at, cuda::CallPlaces places) {
  if (!setup_.has_calls) return product.matmul;
  MatrixProduct made;
  made.matrices = product.matrices;
  made.sms = product.sms;
  made.algorithm = product.algorithm;
  const std::array<cuda::DevicePtr, 3> addresses = {at.a, at.b, at.c};
  bool is_alike = true;
  for (size_t i = 0; i < addresses.size(); ++i) {
    cuda::Matrix& matrix = made.matrices[i];
    const int64_t stride = cuda::at_call(matrix, places).stride;
    is_alike = is_alike && stride == matrix.stride &&
               cuda::alignment_of(addresses[i]) == cuda::alignment_of(matrix.address);
    matrix.stride = stride;
    matrix.address = addresses[i];
  }
  if (is_alike) return product.matmul;
  choose_matmul(made);
  const size_t bytes = matmuls_[made.matmul].matmul.workspace_bytes();
  if (bytes > workspace_.num_bytes()) {
    former_workspaces_.push_back(std::move(workspace_));
    workspace_ = cuda::DeviceMemory(bytes);
  }
  return made.matmul;
}

void LibraryLaunches::launch(uint32_t number, const Stream& stream, int set, const RowsOfCall& rows,
                             cuda::CallPlaces places) {
  for (const MatrixProduct& product : by_kernel_[number][static_cast<size_t>(set)]) {
    const auto weight = [&](size_t i) {
      return cuda::at_call(product.by_weight[i].matrices[1], places);
    };
    bool at_once = true;
    for (size_t i = 1; i < product.by_weight.size() && at_once; ++i) {
      at_once = lies_behind(weight(i - 1), weight(i));
    }
    if (at_once) {
      multiply(product, stream, rows, places);
    } else {
      for (const MatrixProduct& one : product.by_weight) multiply(one, stream, rows, places);
    }
  }
}

// Where memory says the rows, all that there may be: what stands in the others is nobody's, so it
// may be multiplied but not written to the caller's result.
void LibraryLaunches::multiply(const MatrixProduct& product, const Stream& stream,
                               const RowsOfCall& rows, cuda::CallPlaces places) {
  LibraryMatmul::Places at = at_call(product.places, places);
  LibraryMatmul& matmul = matmuls_[matmul_at_call(product, at, places)].matmul;
  const int64_t most = rows.rows == 0 ? matmul.rows() : rows.rows;
  if (rows.at == 0 || !product.is_result) {
    matmul.enqueue(stream, at, most, workspace_);
    return;
  }
  const cuda::DevicePtr result = at.c;
  at.c = whole_product_->address();
  matmul.enqueue(stream, at, most, workspace_);
  whole_product_->copy(stream, result, rows.at, static_cast<int32_t>(most));
}

void LibraryLaunches::launch_every_algorithm(const Stream& stream, cuda::CallPlaces places) {
  std::vector<bool> made(matmuls_.size());
  for_each_product([&](const MatrixProduct& product) {
    if (made[product.matmul]) return;
    made[product.matmul] = true;
    LibraryMatmul& matmul = matmuls_[product.matmul].matmul;
    // The caller's result may be in use.
    LibraryMatmul::Places at = at_call(product.places, places);
    if (setup_.serves) at.c = spare_rows_.address();
    const int64_t rows = setup_.serves ? std::min(matmul.rows(), kSpareRows) : matmul.rows();
    for (size_t step = 0; step < matmul.num_steps(); ++step) {
      matmul.enqueue_step(stream, at, rows, step, workspace_);
    }
  });
}

std::vector<int> LibraryLaunches::num_proposed() const {
  std::vector<int> least(setup_.plan.op.segments.size(), kMostAlgorithms);
  for_each_product([&](const MatrixProduct& product) {
    const int proposed = matmuls_[product.matmul].matmul.num_proposed();
    if (proposed <= product.algorithm) least[product.of] = std::min(least[product.of], proposed);
  });
  return least;
}

size_t LibraryLaunches::most_weight_bytes() const {
  size_t most = 0;
  for_each_product([&](const MatrixProduct& product) {
    const cuda::Matrix& weights = product.matrices[1];
    const int64_t elements = weights.rows * weights.stride;
    most = std::max(most, static_cast<size_t>(elements * num_bytes(weights.dtype)));
  });
  return most;
}

void LibraryLaunches::for_each_product(
    const std::function<void(const MatrixProduct&)>& visit) const {
  for (const auto& by_set : by_kernel_) {
    for (const std::vector<MatrixProduct>& products : by_set) {
      for (const MatrixProduct& product : products) {
        visit(product);
        for (const MatrixProduct& one : product.by_weight) visit(one);
      }
    }
  }
}

}  // namespace stretto::runtime
