// The grouped kernel (stretto/device/grouped_sm90.h), compiled for one configuration.
#pragma once

#include <string>

#include "gpu/compiler.h"
#include "gpu/device.h"
#include "stretto/device/grouped_task.h"

namespace stretto::cuda {

// "256x128x64 stages 4 bf16 gathers swiglu"; of ranges of K "128x128x64/2 stages 6 bf16"
std::string describe(const device::GroupedConfig& config);

// Why no kernel can be made of this configuration; empty when it can.
std::string why_illegal(const device::GroupedConfig& config);

// The source that the compiler gets. Throws UsageError(why_illegal()).
std::string grouped_source(const device::GroupedConfig& config);

class GroupedKernel {
 public:
  // For the current GPU, which must be `device`.
  GroupedKernel(const Device& device, const Compiler& compiler,
                const device::GroupedConfig& config);

  const device::GroupedConfig& config() const { return config_; }
  const Kernel& kernel() const { return kernel_; }
  // The result is the same to the bit for any number of blocks; of ranges a multiple of these is
  // taken, one each at least. `overlap` as for Kernel::launch().
  void launch(const Stream& stream, int blocks, const device::GroupedParams& params,
              bool overlap = false) const;

 private:
  device::GroupedConfig config_;
  Kernel kernel_;
};

}  // namespace stretto::cuda
