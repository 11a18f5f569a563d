// The tables that drive the GEMM kernel, on the host and on the GPU.
#pragma once

#include <vector>

#include "gpu/device.h"
#include "gpu/tensor_map.h"
#include "stretto/device/gemm_task.h"
#include "tables/mark_words.h"

namespace stretto::cuda {

struct GemmTable {
  std::vector<device::TensorMap> maps;  // map_sets times the same list, for runs in turn
  uint32_t map_sets = 1;
  std::vector<std::vector<device::GemmTask>> blocks;  // tasks of each block, in order
  std::vector<device::WaitEntry> waits;
  std::vector<device::NotifyEntry> notifies;
  std::vector<device::GemmDestination> destinations;
  device::RowsOfRun rows{};  // block 0: every run has the plan's
  // As `blocks`: for kernels that split, of each task as many as its columns have halves; and for
  // kernels with followers or bias.
  std::vector<std::vector<device::GemmSplit>> splits;
  std::vector<std::vector<device::GemmFollow>> follows;
  std::vector<std::vector<device::GemmSource>> sources;  // for kernels with sources
  // Of a grouped kernel, as `blocks`, for each of map_sets.
  std::vector<std::vector<std::vector<device::GemmEntry>>> entries;
  std::vector<std::vector<device::WaitEntry>> end_waits;  // by block, behind its tasks; or none
};

// Set after set, as kernels take them.
std::vector<device::GemmEntry> all_entries(const GemmTable& table);

// A table in GPU memory, and the kernel's parameters that point to it.
class DeviceGemmTable {
 public:
  // `marks`: tasks tell when they came how far.
  explicit DeviceGemmTable(const GemmTable& table, const device::SignalSpace& signals = {},
                           bool marks = false);
  int num_blocks() const { return num_blocks_; }
  const device::GemmParams& params() const { return params_; }
  const MarkWords& marks() const { return marks_; }

 private:
  DeviceMemory maps_, first_task_, tasks_, waits_, notifies_, destinations_, splits_, follows_,
      first_end_wait_, acquired_, entries_, sources_;
  MarkWords marks_;
  device::GemmParams params_{};
  int num_blocks_;
};

// What a configuration's followers work on beside A and B, of one GPU.
struct FollowerTensors {
  Matrix other_b;           // swiglu: of the second product; B is the first one's
  DevicePtr bias[2] = {0};  // of each product, as many as C has columns; 0: none
};

// One product C = A * B^T, and what follows it, on one GPU, tiles in bands of `band` tile rows,
// walked column by column so that the tiles in flight share rows of A and B in L2. Throws
// UsageError on shapes that do not fit.
GemmTable dense_table(const Matrix& a, const Matrix& b, const Matrix& c,
                      const device::GemmConfig& config, int blocks, int band,
                      const FollowerTensors& follower = {});

}  // namespace stretto::cuda
