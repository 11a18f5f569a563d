// The products of a rank's runs where a library multiplies: what they are, and enqueuing them.
#include <algorithm>

#include "launch/join_products.h"
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

namespace {

// As if one matrix had the rows of both.
bool lies_behind(const cuda::Matrix& upper, const cuda::Matrix& lower) {
  const auto row_bytes = static_cast<uint64_t>(upper.stride * num_bytes(upper.dtype));
  return lower.stride == upper.stride &&
         lower.address == upper.address + static_cast<uint64_t>(upper.rows) * row_bytes;
}

}  // namespace

// Weights that only calls name may lie behind one another in some of them.
std::vector<RankStreams::MatrixProduct> RankStreams::products_beside(
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

void RankStreams::add_products() {
  size_t workspace = 0, row = 0;  // bytes
  for (size_t k = 0; k < setup_.program.gemms.size(); ++k) {
    if (!setup_.program.needs[k].library) continue;
    const std::vector<cuda::BlockPart>& kernel = setup_.program.gemms[k];
    // All that a gather's last kernel reads has come; of a reduction's last movers wait to send it.
    const bool is_alone = k + 1 == setup_.program.gemms.size() && !setup_.plan.op.ends_with_terms();
    const int sms = is_alone ? sms_for_library() : sms_beside_movers();
    auto& by_set = products_.emplace_back(static_cast<size_t>(sets_));
    const cuda::GemmNeeds& needs = setup_.program.needs[k];
    if (needs.few_rows) add_few_rows(static_cast<uint32_t>(k));
    experts_.add(cuda::is_by_experts(needs)
                     ? cuda::expert_products_of(setup_.plan, *setup_.program.sums, kernel)
                     : std::vector<cuda::ExpertProduct>(),
                 needs, sms);
    if (cuda::is_by_experts(needs) || needs.few_rows) continue;
    library_ = &setup_.kernels.library(setup_.device, setup_.most_proposals);
    const std::vector<cuda::Product> found = cuda::products_of(setup_.plan, kernel);
    if (setup_.serves && (found.size() != 1 || found.front().c.rows() != setup_.plan.op.rows())) {
      throw UsageError("a library serves fewer rows where all of a rank's are one product");
    }
    for (const std::vector<cuda::Product>& beside : cuda::beside_one_another(found)) {
      MatrixProduct like;
      like.of = cuda::product_of_operator(setup_.plan, beside.front());
      const bool is_first = !setup_.first_algorithms.empty() && setup_.first_algorithms[like.of];
      like.algorithm = is_first ? 0 : *setup_.program.needs[k].library;
      like.sms = sms;
      const Buffer& result = setup_.plan.buffers[beside.front().c.buffer];
      like.is_result = result.role == BufferRole::output;
      for (int set = 0; set < sets_; ++set) {
        for (MatrixProduct& one : products_beside(beside, like, set)) {
          by_set[static_cast<size_t>(set)].push_back(std::move(one));
        }
      }
      const auto row_bytes = static_cast<int64_t>(cuda::row_bytes_of(result));
      if (like.is_result && setup_.rows_in_memory && !whole_product_) {
        const Region& c = beside.front().c;
        STRETTO_ASSERT(c.cols() == result.cols, "the product is the whole result");
        whole_product_.emplace(setup_.device, setup_.kernels, c.rows(), row_bytes);
      }
      row = std::max(row, static_cast<size_t>(row_bytes));
    }
    for (const std::vector<MatrixProduct>& products : by_set) {
      for (size_t i = 0; i < products.size(); ++i) {
        alternates_ = alternates_ || products[i].places != by_set.front()[i].places;
      }
    }
  }
  for (const SharedMatmul& one : matmuls_) {
    workspace = std::max(workspace, one.matmul.workspace_bytes());
  }
  alternates_ = alternates_ || experts_.alternates();
  workspace_ = cuda::DeviceMemory(workspace);
  if (setup_.serves) spare_rows_ = cuda::DeviceMemory(row * kSpareRows);
}

void RankStreams::choose_matmul(MatrixProduct& product) {
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

void RankStreams::for_each_product(const std::function<void(const MatrixProduct&)>& visit) const {
  for (const auto& by_set : products_) {
    for (const std::vector<MatrixProduct>& products : by_set) {
      for (const MatrixProduct& product : products) {
        visit(product);
        for (const MatrixProduct& one : product.by_weight) visit(one);
      }
    }
  }
}

std::vector<int> RankStreams::num_proposed() const {
  std::vector<int> least(setup_.plan.op.segments.size(), kMostAlgorithms);
  for_each_product([&](const MatrixProduct& product) {
    const int proposed = matmuls_[product.matmul].matmul.num_proposed();
    if (proposed <= product.algorithm) least[product.of] = std::min(least[product.of], proposed);
  });
  return least;
}

bool RankStreams::goes_at_once(const MatrixProduct& product) const {
  const auto weight = [&](size_t i) {
    return cuda::at_call(product.by_weight[i].matrices[1], call_.places);
  };
  for (size_t i = 1; i < product.by_weight.size(); ++i) {
    if (!lies_behind(weight(i - 1), weight(i))) return false;
  }
  return true;
}

void RankStreams::multiply(uint32_t kernel, const Stream& stream, int set, const RowsOfCall& rows,
                           bool starts_early) {
  experts_.launch(kernel, stream, starts_early, kernels_overlap_);
  for (const MatrixProduct& product : products_[kernel][static_cast<size_t>(set)]) {
    if (goes_at_once(product)) {
      multiply(product, stream, rows);
    } else {
      for (const MatrixProduct& one : product.by_weight) multiply(one, stream, rows);
    }
  }
}

// Where memory says the rows, all that there may be: what stands in the others is nobody's, so it
// may be multiplied but not written to the caller's result.
void RankStreams::multiply(const MatrixProduct& product, const Stream& stream,
                           const RowsOfCall& rows) {
  LibraryMatmul::Places places = {cuda::at_call(product.places.a, call_.places),
                                  cuda::at_call(product.places.b, call_.places),
                                  cuda::at_call(product.places.c, call_.places)};
  LibraryMatmul& matmul = matmuls_[matmul_at_call(product, places)].matmul;
  const int64_t most = rows.rows == 0 ? matmul.rows() : rows.rows;
  if (rows.at == 0 || !product.is_result) {
    matmul.enqueue(stream, places, most, workspace_);
    return;
  }
  const cuda::DevicePtr result = places.c;
  places.c = whole_product_->address();
  matmul.enqueue(stream, places, most, workspace_);
  whole_product_->copy(stream, result, rows.at, static_cast<int32_t>(most));
}

void RankStreams::enqueue_products(const Stream& stream) {
  if (products_.empty()) return;
  const cuda::CallPlaces before = places_before_calls();
  std::vector<bool> made(matmuls_.size());
  for_each_product([&](const MatrixProduct& product) {
    if (made[product.matmul]) return;
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
  });
}

}  // namespace stretto::runtime
