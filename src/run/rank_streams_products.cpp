// The products of a rank's runs where a library multiplies: what they are, and enqueuing them.
#include <algorithm>

#include "launch/library_products.h"
#include "run/rank_streams.h"
#include "stretto/error.h"

namespace stretto::runtime {

using cuda::LibraryMatmul;
using cuda::Stream;

// A library's blocks for which movers leave no SM would run after all the others, in the time of
// two products. Movers stay until their last task has ended. Of SMs that are left free to others it
// takes none where it can: its blocks end by themselves, but others would wait for them.
int RankStreams::sms_for_library() const {
  return setup_.device.free_sms() > 0 ? setup_.device.num_sms() : 0;
}

int RankStreams::sms_beside_movers() const {
  const cuda::RankProgram& program = setup_.program;
  for (const cuda::StepStream& stream : program.streams) {
    if (stream.kind != LaneKind::comm) continue;
    const auto blocks = static_cast<int>(program.moves[stream.steps.front().index].size());
    return std::max(1, setup_.device.num_sms() - blocks);
  }
  return sms_for_library();
}

void RankStreams::add_products() {
  const auto matrix_of = [&](const Region& region, int set) {
    const Buffer& buffer = setup_.plan.buffers[region.buffer];
    return cuda::Matrix{cuda::address_of(setup_.places, region.rank, region.buffer, set) +
                            cuda::offset_of(buffer, region.row0, region.col0),
                        region.rows(), region.cols(), buffer.cols, buffer.dtype};
  };
  size_t workspace = 0, row = 0;
  for (size_t k = 0; k < setup_.program.gemms.size(); ++k) {
    if (!setup_.program.needs[k].library) continue;
    const std::vector<cuda::BlockPart>& kernel = setup_.program.gemms[k];
    // All that a gather's last kernel reads has come; of a reduction's last movers wait to send it.
    const bool is_alone = k + 1 == setup_.program.gemms.size() && !setup_.plan.op.ends_with_terms();
    const int sms = is_alone ? sms_for_library() : sms_beside_movers();
    auto& by_set = products_.emplace_back(static_cast<size_t>(sets_));
    const cuda::GemmNeeds& needs = setup_.program.needs[k];
    experts_.add(cuda::is_by_experts(needs)
                     ? cuda::expert_products_of(setup_.plan, *setup_.program.sums, kernel)
                     : std::vector<cuda::ExpertProduct>(),
                 needs, sms);
    if (cuda::is_by_experts(needs)) continue;
    library_ = &setup_.kernels.library(setup_.device, setup_.most_proposals);
    const std::vector<cuda::Product> found = cuda::products_of(setup_.plan, kernel);
    if (setup_.serves && (found.size() != 1 || found.front().c.rows() != setup_.plan.op.rows())) {
      throw UsageError("a library serves fewer rows where all of a rank's are one product");
    }
    for (const cuda::Product& product : found) {
      const size_t of = cuda::product_of_operator(setup_.plan, product);
      const bool is_first = !setup_.first_algorithms.empty() && setup_.first_algorithms[of];
      const int algorithm = is_first ? 0 : *setup_.program.needs[k].library;
      const bool is_result = setup_.plan.buffers[product.c.buffer].role == BufferRole::output;
      for (int set = 0; set < sets_; ++set) {
        const cuda::Matrix c = matrix_of(product.c, set);
        auto& products = by_set[static_cast<size_t>(set)];
        products.push_back(
            product_of(matrix_of(product.a, set), matrix_of(product.b, set), c, sms, algorithm));
        alternates_ = alternates_ || products.back().places != by_set.front().back().places;
        products.back().of = of;
        products.back().is_result = is_result;
        products.back().matrices = {matrix_of(product.a, set), matrix_of(product.b, set), c};
        products.back().sms = sms;
        products.back().algorithm = algorithm;
        const int64_t row_bytes = c.stride * num_bytes(c.dtype);
        if (is_result && setup_.rows_in_memory && !whole_product_) {
          STRETTO_ASSERT(c.columns == c.stride, "the product is the whole result");
          whole_product_.emplace(setup_.device, setup_.kernels, c.rows, row_bytes);
        }
        row = std::max(row, static_cast<size_t>(row_bytes));
        workspace = std::max(workspace, matmuls_[products.back().matmul].matmul.workspace_bytes());
      }
    }
  }
  alternates_ = alternates_ || experts_.alternates();
  workspace_ = cuda::DeviceMemory(workspace);
  if (setup_.serves) spare_rows_ = cuda::DeviceMemory(row * kSpareRows);
}

RankStreams::MatrixProduct RankStreams::product_of(const cuda::Matrix& a, const cuda::Matrix& b,
                                                   const cuda::Matrix& c, int sms, int algorithm) {
  std::array shape = {a, b, c};
  for (cuda::Matrix& matrix : shape) matrix.address = cuda::alignment_of(matrix.address);
  size_t i = 0;
  const auto is_same = [&](const SharedMatmul& one) {
    return one.shape == shape && one.sms == sms && one.algorithm == algorithm;
  };
  while (i < matmuls_.size() && !is_same(matmuls_[i])) ++i;
  if (i == matmuls_.size()) {
    // Fewer rows want smaller tiles. A run may have any number of them; and what a small bucket
    // needs is loaded with a large one.
    std::vector<int64_t> steps = {a.rows};
    for (int64_t rows = kFewestRows; setup_.serves && rows < a.rows; rows *= 2) {
      steps.insert(steps.end() - 1, rows);
    }
    matmuls_.push_back(
        {shape, sms, algorithm, LibraryMatmul(*library_, a, b, c, steps, algorithm, sms)});
  }
  return {i, {a.address, b.address, c.address}};
}

std::vector<int> RankStreams::num_proposed() const {
  std::vector<int> least(setup_.plan.op.segments.size(), kMostAlgorithms);
  for (const auto& by_set : products_) {
    for (const MatrixProduct& product : by_set.front()) {
      const int proposed = matmuls_[product.matmul].matmul.num_proposed();
      if (proposed <= product.algorithm) least[product.of] = std::min(least[product.of], proposed);
    }
  }
  return least;
}

// Where memory says the rows, all that there may be: what stands in the others is nobody's, so it
// may be multiplied but not written to the caller's result.
void RankStreams::multiply(uint32_t kernel, const Stream& stream, int set, const CallRows& rows) {
  experts_.launch(kernel, stream);
  for (const MatrixProduct& product : products_[kernel][static_cast<size_t>(set)]) {
    LibraryMatmul::Places places = {cuda::at_call(product.places.a, call_.places),
                                    cuda::at_call(product.places.b, call_.places),
                                    cuda::at_call(product.places.c, call_.places)};
    LibraryMatmul& matmul = matmuls_[matmul_at_call(product, places)].matmul;
    const int64_t most = rows.rows == 0 ? matmul.rows() : rows.rows;
    if (rows.at == 0 || !product.is_result) {
      matmul.enqueue(stream, places, most, workspace_);
      continue;
    }
    const cuda::DevicePtr result = places.c;
    places.c = whole_product_->address();
    matmul.enqueue(stream, places, most, workspace_);
    whole_product_->copy(stream, result, rows.at, static_cast<int32_t>(most));
  }
}

void RankStreams::enqueue_products(const Stream& stream) {
  if (products_.empty()) return;
  const cuda::CallPlaces before = places_before_calls();
  std::vector<bool> made(matmuls_.size());
  for (const auto& by_set : products_) {
    for (const std::vector<MatrixProduct>& products : by_set) {
      for (const MatrixProduct& product : products) {
        if (made[product.matmul]) continue;
        made[product.matmul] = true;
        LibraryMatmul& matmul = matmuls_[product.matmul].matmul;
        // The caller's result may be in use.
        LibraryMatmul::Places places = {cuda::at_call(product.places.a, before),
                                        cuda::at_call(product.places.b, before),
                                        cuda::at_call(product.places.c, before)};
        if (setup_.serves) places.c = spare_rows_.address();
        const int64_t rows = setup_.serves ? std::min(matmul.rows(), kSpareRows) : matmul.rows();
        for (size_t step = 0; step < matmul.num_steps(); ++step) {
          matmul.enqueue_step(stream, places, rows, step, workspace_);
        }
      }
    }
  }
}

}  // namespace stretto::runtime
