// Matrices as TMA sees them.
#pragma once

#include "gpu/driver_api.h"
#include "stretto/device/gemm_task.h"
#include "stretto/dtype.h"

namespace stretto::cuda {

// Rows of `columns` elements, `stride` elements apart. Its edges bound every access of a map.
struct Matrix {
  DevicePtr address = 0;
  int64_t rows = 0, columns = 0, stride = 0;
  DType dtype = DType::bf16;
  bool operator==(const Matrix&) const = default;
};

// Why TMA cannot work on it; empty when it can.
std::string why_unmappable(const Matrix& matrix);

// Maps for the kernel's loads of its A and B, and of sums to add, and its stores, of `rows` rows at
// once. Throw UsageError.
device::TensorMap map_for_a(const Matrix& matrix, const device::GemmConfig& config);
device::TensorMap map_for_b(const Matrix& matrix, const device::GemmConfig& config);
device::TensorMap map_for_sums(const Matrix& matrix, const device::GemmConfig& config, int rows);
device::TensorMap map_for_store(const Matrix& matrix, const device::GemmConfig& config,
                                int rows = device::kChunkRows);

// Weights of experts: `own` rows of each, and so many from one expert's first to the next one's.
struct ExpertRows {
  int64_t experts = 1, own = 0, step = 0;
};

// For the grouped kernel: boxes of 128 bytes by `rows` rows, to load or to store, or of so many
// columns; of weights, boxes of one expert. Interleaved with other weights, which lie alike from
// `other` on, at a higher address: eight rows of one and eight of the other in turns.
enum class Access : uint8_t { load, store };
device::TensorMap map_of_rows(const Matrix& matrix, int rows, Access access, int columns = 0);
device::TensorMap map_for_experts(const Matrix& weights, const ExpertRows& of, int rows);
device::TensorMap map_for_interleaved(const Matrix& weights, DevicePtr other, const ExpertRows& of,
                                      int rows);

// Of as many rows and columns as before, elsewhere: half of what it takes to describe them.
void move_map(device::TensorMap& map, DevicePtr to);

}  // namespace stretto::cuda
