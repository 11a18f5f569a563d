#include "gpu/tensor_map.h"

#include <fmt/format.h>

#include <array>
#include <span>

#include "stretto/error.h"

namespace stretto::cuda {
namespace {

int type_of(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return kTensorBf16;
    case DType::fp16:
      return kTensorFp16;
    case DType::fp32:
      return kTensorFp32;
    case DType::i32:
    case DType::i64:
      break;
  }
  return kTensorBf16;
}

int swizzle_of(int64_t box_row_bytes) {
  return box_row_bytes == 128 ? kSwizzle128 : box_row_bytes == 64 ? kSwizzle64 : kSwizzle32;
}

// Innermost dimension first; strides of the others, in elements.
struct Dimension {
  int64_t size, stride;
  int box;
};

device::TensorMap encode(const Matrix& matrix, std::span<const Dimension> dimensions,
                         int promotion) {
  if (const std::string why = why_unmappable(matrix); !why.empty()) throw UsageError(why);
  constexpr size_t kMost = 5;
  STRETTO_ASSERT(dimensions.size() <= kMost, "TMA has five dimensions");
  std::array<uint64_t, kMost> sizes{}, strides{};
  std::array<uint32_t, kMost> box{}, steps{};
  for (size_t i = 0; i < dimensions.size(); ++i) {
    sizes[i] = static_cast<uint64_t>(dimensions[i].size);
    box[i] = static_cast<uint32_t>(dimensions[i].box);
    steps[i] = 1;
    if (i > 0) {
      strides[i - 1] = static_cast<uint64_t>(dimensions[i].stride * num_bytes(matrix.dtype));
    }
  }
  device::TensorMap map{};
  check(driver().tensor_map_encode(
            &map, type_of(matrix.dtype), static_cast<uint32_t>(dimensions.size()),
            reinterpret_cast<void*>(matrix.address), sizes.data(), strides.data(), box.data(),
            steps.data(), 0, swizzle_of(dimensions[0].box * num_bytes(matrix.dtype)), promotion, 0),
        "describe a matrix to TMA");
  return map;
}

device::TensorMap encode(const Matrix& matrix, int box_columns, int box_rows, int promotion) {
  const Dimension dimensions[] = {{matrix.columns, 1, box_columns},
                                  {matrix.rows, matrix.stride, box_rows}};
  return encode(matrix, dimensions, promotion);
}

}  // namespace

std::string why_unmappable(const Matrix& matrix) {
  if (matrix.rows < 1 || matrix.columns < 1 || matrix.rows > INT32_MAX ||
      matrix.columns > INT32_MAX) {
    return fmt::format("a matrix on the GPU has 1 to 2^31-1 rows and columns, not {} x {}",
                       matrix.rows, matrix.columns);
  }
  if (matrix.address % 16 != 0) return "a matrix on the GPU starts at a multiple of 16 bytes";
  const int64_t row_bytes = matrix.stride * num_bytes(matrix.dtype);
  if (matrix.stride < matrix.columns || row_bytes % 16 != 0 || row_bytes >= int64_t{1} << 40) {
    return fmt::format(
        "rows of a matrix on the GPU are a multiple of 16 bytes apart: {} {} elements are not, "
        "take "
        "a multiple of {}",
        matrix.stride, to_string(matrix.dtype), 16 / num_bytes(matrix.dtype));
  }
  return "";
}

device::TensorMap map_for_a(const Matrix& matrix, const device::GemmConfig& config) {
  return encode(matrix, device::kTileK, device::layout_of(config).a_box_rows, kL2Promote256);
}

device::TensorMap map_for_b(const Matrix& matrix, const device::GemmConfig& config) {
  return encode(matrix, device::kTileK, device::layout_of(config).b_box_rows, kL2Promote256);
}

device::TensorMap map_for_sums(const Matrix& matrix, const device::GemmConfig& config, int rows) {
  return encode(matrix, device::layout_of(config).chunk_columns, rows, kL2Promote256);
}

device::TensorMap map_for_store(const Matrix& matrix, const device::GemmConfig& config, int rows) {
  return encode(matrix, device::layout_of(config).chunk_columns, rows, kL2PromoteNone);
}

device::TensorMap map_of_rows(const Matrix& matrix, int rows, Access access, int columns) {
  return encode(matrix, columns > 0 ? columns : 128 / num_bytes(matrix.dtype), rows,
                access == Access::load ? kL2Promote256 : kL2PromoteNone);
}

device::TensorMap map_for_experts(const Matrix& weights, const ExpertRows& of, int rows) {
  const Dimension dimensions[] = {{weights.columns, 1, device::kTileK},
                                  {of.own, weights.stride, rows},
                                  {of.experts, of.step * weights.stride, 1}};
  return encode(weights, dimensions, kL2Promote256);
}

device::TensorMap map_for_interleaved(const Matrix& weights, DevicePtr other, const ExpertRows& of,
                                      int rows) {
  const auto apart = static_cast<int64_t>(other - weights.address) / num_bytes(weights.dtype);
  const Dimension dimensions[] = {{weights.columns, 1, device::kTileK},
                                  {8, weights.stride, 8},
                                  {2, apart, 2},
                                  {of.own / 8, 8 * weights.stride, rows / 16},
                                  {of.experts, of.step * weights.stride, 1}};
  return encode(weights, dimensions, kL2Promote256);
}

void move_map(device::TensorMap& map, DevicePtr to) {
  check(driver().tensor_map_move(&map, reinterpret_cast<void*>(to)),
        "describe a matrix that lies elsewhere to TMA");
}

}  // namespace stretto::cuda
