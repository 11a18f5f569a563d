// The device headers (include/stretto/device), carried inside the binary for run-time compilation.
#pragma once

#include <span>

namespace stretto::cuda {

struct DeviceSource {
  const char* name;  // as #include names it: "stretto/device/types.h"
  const char* text;
};
std::span<const DeviceSource> device_sources();

}  // namespace stretto::cuda
