#include "measure/graph_reference.h"

#include <algorithm>
#include <map>
#include <optional>
#include <random>

#include "gpu/device_types.h"
#include "gpu/host_copies.h"
#include "op/stages/stage_row.h"
#include "stretto/error.h"

namespace stretto::runtime {
namespace {

using cuda::check;
using cuda::DeviceMemory;
using cuda::DevicePtr;
using cuda::driver;

size_t bytes_of(int64_t rows, int64_t columns, DType dtype) {
  return static_cast<size_t>(std::max<int64_t>(1, rows) * columns * num_bytes(dtype));
}

// A rectangle between matrices with rows so many bytes apart.
void copy_rect(const cuda::Stream& stream, DevicePtr from, size_t from_pitch, DevicePtr to,
               size_t to_pitch, size_t row_bytes, int64_t rows) {
  if (rows == 0 || row_bytes == 0) return;
  cuda::Copy2D copy{};
  copy.from_type = copy.to_type = cuda::kMemoryUnified;
  copy.from = from;
  copy.from_pitch = from_pitch;
  copy.to = to;
  copy.to_pitch = to_pitch;
  copy.row_bytes = row_bytes;
  copy.rows = static_cast<size_t>(rows);
  check(driver().copy_2d_async(&copy, stream.handle()), "copy a part of a tensor");
}

device::StageOf stage_of(StageKind kind) {
  const StageRow& row = row_of(kind);
  STRETTO_ASSERT(row.on_gpus, "no stage of whole tensors");
  return *row.on_gpus;
}

// Of a tensor of indices: the rows of the tables that they are of. Nothing: it is another one.
std::optional<int64_t> rows_looked_up(const Operator& op, int tensor) {
  for (const Stage& stage : op.stages) {
    if (looks_up(stage.kind) && stage.in[0] == tensor) return op.tensor(stage.in[1]).rows;
  }
  return std::nullopt;
}

// Bags as long as they can be, of any rows.
template <typename Index>
void fill_bags(const cuda::Stream& stream, DevicePtr to, int64_t count, int64_t rows,
               uint64_t seed) {
  std::mt19937 random(static_cast<uint32_t>(seed));
  std::vector<Index> indices(static_cast<size_t>(count));
  for (Index& index : indices) {
    index = static_cast<Index>(uint64_t{random()} * static_cast<uint64_t>(rows) >> 32);
  }
  stream.synchronize();
  cuda::copy_to_gpu(to, indices.data(), indices.size() * sizeof(Index));
}

// A whole tensor.
struct Whole {
  DeviceMemory memory;
  DType dtype = DType::fp32;
};

// The first of the ranks that have what this one has of an input.
int first_with_it(const Operator& op, const Tensor& of, int rank) {
  if (of.held == Held::whole) return of.deals_rows ? op.first_of_team(of, rank) : 0;
  return of.team > 0 && !of.deals_rows ? rank % of.team : rank;  // all teams have all of a weight
}

class Evaluation {
 public:
  Evaluation(const Operator& op, const cuda::TestData& data, const cuda::Cublas& cublas,
             const cuda::Stream& stream)
      : op_(op), data_(data), cublas_(cublas), stream_(stream) {
    for (const Stage& stage : op.stages) {
      stage.kind == StageKind::gemm ? multiply(stage) : evaluate(stage);
    }
  }

  DeviceMemory slice(int tensor, const Slice& slice) {
    const Tensor& of = op_.tensor(tensor);
    const Whole& whole = tensor_of(tensor);
    STRETTO_ASSERT(whole.dtype == DType::fp32, "an output is made by a stage");
    DeviceMemory part(bytes_of(slice.rows(), slice.cols(), DType::fp32));
    const size_t pitch = static_cast<size_t>(of.cols) * 4,
                 row = static_cast<size_t>(slice.cols()) * 4;
    const auto first = static_cast<uint64_t>(slice.row0 * of.cols + slice.col0) * 4;
    copy_rect(stream_, whole.memory.address() + first, pitch, part.address(), row, row,
              slice.rows());
    return part;
  }

 private:
  const Whole& tensor_of(int id) {
    const auto known = wholes_.find(id);
    if (known != wholes_.end()) return known->second;
    const Tensor& tensor = op_.tensor(id);
    STRETTO_ASSERT(tensor.stage < 0, "stages stand in their order");
    Whole whole{DeviceMemory(bytes_of(tensor.rows * tensor.matrices, tensor.cols, tensor.dtype)),
                tensor.dtype};
    const auto size = static_cast<size_t>(num_bytes(tensor.dtype));
    const size_t pitch = static_cast<size_t>(tensor.cols) * size;
    for (int rank = 0; rank < op_.ranks; ++rank) {
      if (first_with_it(op_, tensor, rank) != rank) continue;
      const Slice slice = slice_of(op_, id, tensor.held, rank);
      if (slice.rows() == 0) continue;
      const DeviceMemory part(bytes_of(slice.rows(), slice.cols(), tensor.dtype));
      fill_input_slice(op_, id, rank, data_, stream_, part.address());
      const size_t row = static_cast<size_t>(slice.cols()) * size;
      const auto first = static_cast<uint64_t>(slice.row0 * tensor.cols + slice.col0) * size;
      copy_rect(stream_, part.address(), row, whole.memory.address() + first, pitch, row,
                slice.rows());
      stream_.synchronize();
    }
    return wholes_[id] = std::move(whole);
  }

  device::StageParams params_of(const Tensor& tensor, const Whole& x, const Whole& to) const {
    device::StageParams params{};
    params.x = x.memory.as<void>();
    if (!is_index(x.dtype)) {
      params.x_element = params.y_element = cuda::device_type<device::Element>(x.dtype);
    }
    params.to = to.memory.as<void>();
    params.to_element = cuda::device_type<device::Element>(to.dtype);
    params.rows = static_cast<uint64_t>(tensor.rows);
    params.columns = static_cast<uint64_t>(tensor.cols);
    return params;
  }

  // In the operator's type, as plans store what products read.
  cuda::Matrix operand(int id, DeviceMemory& rounded) {
    const Tensor& tensor = op_.tensor(id);
    const Whole& whole = tensor_of(id);
    DevicePtr address = whole.memory.address();
    if (whole.dtype != op_.dtype) {
      Whole to{DeviceMemory(bytes_of(tensor.rows, tensor.cols, op_.dtype)), op_.dtype};
      data_.evaluate(stream_, params_of(tensor, whole, to));
      address = to.memory.address();
      rounded = std::move(to.memory);
    }
    return {address, tensor.rows, tensor.cols, tensor.cols, op_.dtype};
  }

  void multiply(const Stage& stage) {
    const Tensor& out = op_.tensor(stage.out);
    Whole made{DeviceMemory(bytes_of(out.rows, out.cols, DType::fp32)), DType::fp32};
    DeviceMemory rounded_a, rounded_b;
    cublas_.multiply(operand(stage.in[0], rounded_a), operand(stage.in[1], rounded_b),
                     {made.memory.address(), out.rows, out.cols, out.cols, DType::fp32});
    stream_.synchronize();
    wholes_[stage.out] = std::move(made);
  }

  void evaluate(const Stage& stage) {
    const Tensor& out = op_.tensor(stage.out);
    const Whole& x = tensor_of(stage.in[0]);
    Whole made{DeviceMemory(bytes_of(out.rows, out.cols, DType::fp32)), DType::fp32};
    device::StageParams params = params_of(out, x, made);
    params.stage = stage_of(stage.kind);
    params.epsilon = static_cast<float>(stage.eps);
    if (looks_up(stage.kind)) {
      params.x_columns = static_cast<uint32_t>(op_.tensor(stage.in[0]).cols);
      params.tables = static_cast<uint32_t>(op_.tensor(stage.in[1]).matrices);
      params.wide_ids = x.dtype == DType::i64 ? 1 : 0;
    }
    if (stage.in.size() > 1) {
      const Whole& y = tensor_of(stage.in[1]);
      params.y = y.memory.as<void>();
      params.y_element = cuda::device_type<device::Element>(y.dtype);
      params.y_rows = static_cast<uint64_t>(op_.tensor(stage.in[1]).rows);
    }
    data_.evaluate(stream_, params);
    stream_.synchronize();
    wholes_[stage.out] = std::move(made);
  }

  const Operator& op_;
  const cuda::TestData& data_;
  const cuda::Cublas& cublas_;
  const cuda::Stream& stream_;
  std::map<int, Whole> wholes_;  // by tensor
};

}  // namespace

void fill_input_slice(const Operator& op, int tensor, int rank, const cuda::TestData& data,
                      const cuda::Stream& stream, DevicePtr to) {
  const Tensor& of = op.tensor(tensor);
  const Slice slice = slice_of(op, tensor, of.held, rank);
  int inputs = 0;
  for (const Tensor& one : op.tensors) inputs += one.stage < 0 ? 1 : 0;
  const int from = first_with_it(op, of, rank);
  const auto seed = static_cast<uint64_t>(from * inputs + tensor + 1);
  if (const std::optional<int64_t> rows = rows_looked_up(op, tensor)) {
    const auto fill = of.dtype == DType::i64 ? fill_bags<int64_t> : fill_bags<int32_t>;
    return fill(stream, to, slice.rows() * slice.cols(), *rows, seed);
  }
  const float scale = op.only_product() == nullptr ? of.values.scale : 1;
  data.fill(stream, to, slice.rows() * slice.cols(), of.dtype, device::Fill::normal, seed, scale);
}

std::vector<DeviceMemory> reference_outputs(const Operator& op, int rank,
                                            const cuda::TestData& data, const cuda::Cublas& cublas,
                                            const cuda::Stream& stream) {
  Evaluation evaluation(op, data, cublas, stream);
  std::vector<DeviceMemory> outputs;
  for (const OperatorOutput& output : op.outputs) {
    outputs.push_back(
        evaluation.slice(output.tensor, slice_of(op, output.tensor, output.held, rank)));
  }
  stream.synchronize();
  return outputs;
}

}  // namespace stretto::runtime
