#include "gpu/tensor_map.h"

#include <fmt/format.h>

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
  }
  return kTensorBf16;
}

int swizzle_of(int64_t box_row_bytes) {
  return box_row_bytes == 128 ? kSwizzle128 : box_row_bytes == 64 ? kSwizzle64 : kSwizzle32;
}

device::TensorMap encode(const Matrix& matrix, int box_columns, int box_rows, int promotion) {
  if (const std::string why = why_unmappable(matrix); !why.empty()) throw UsageError(why);
  const uint64_t sizes[] = {static_cast<uint64_t>(matrix.columns),
                            static_cast<uint64_t>(matrix.rows)};
  const uint64_t strides[] = {static_cast<uint64_t>(matrix.stride * num_bytes(matrix.dtype))};
  const uint32_t box[] = {static_cast<uint32_t>(box_columns), static_cast<uint32_t>(box_rows)};
  const uint32_t steps[] = {1, 1};
  device::TensorMap map{};
  check(driver().tensor_map_encode(
            &map, type_of(matrix.dtype), 2, reinterpret_cast<void*>(matrix.address), sizes, strides,
            box, steps, 0, swizzle_of(box_columns * num_bytes(matrix.dtype)), promotion, 0),
        "describe a matrix to TMA");
  return map;
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

}  // namespace stretto::cuda
