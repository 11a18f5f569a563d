// The GEMM kernel (stretto/device/gemm_sm90.h), compiled for one configuration.
#pragma once

#include <string>

#include "gpu/compiler.h"
#include "gpu/device.h"
#include "plan/added_part.h"
#include "stretto/device/gemm_mover.h"
#include "stretto/device/tile_rows.h"

namespace stretto::cuda {

inline constexpr int kMostAdds = kMostSumsInTile - 1;  // GemmConfig::adds

// "128x256x64 stages 4 consumers 2 shared b bf16 to bf16 overlap"
std::string describe(const device::GemmConfig& config);

// Why no kernel can be made of this configuration; empty when it can.
std::string why_illegal(const device::GemmConfig& config);

// The source that the compiler gets. Throws UsageError(why_illegal()).
std::string gemm_source(const device::GemmConfig& config);

class GemmKernel {
 public:
  // For the current GPU, which must be `device`.
  GemmKernel(const Device& device, const Compiler& compiler, const device::GemmConfig& config);

  const device::GemmConfig& config() const { return config_; }
  const Kernel& kernel() const { return kernel_; }
  // `params.first_task` has `blocks` + 1 entries; blocks is a multiple of the cluster. `overlap` as
  // for Kernel::launch().
  void launch(const Stream& stream, int blocks, const device::GemmParams& params,
              bool overlap = false) const;
  // Of a configuration that moves; `blocks` is how many multiply.
  void launch(const Stream& stream, int blocks, const device::GemmMoverParams& params,
              bool overlap = false) const;
  // Of a configuration that norms.
  void launch(const Stream& stream, int blocks, const device::GemmRowsParams& params,
              bool overlap = false) const;

 private:
  device::GemmConfig config_;
  Kernel kernel_;
};

}  // namespace stretto::cuda
