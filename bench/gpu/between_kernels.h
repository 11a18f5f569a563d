// What kernels of a graph cost beside their work: behind one another, and beside a second stream's.
#pragma once

#include <nlohmann/json.hpp>

#include "gemm_launches.h"
#include "gpu/library_matmul.h"

namespace stretto::bench {

// Memory of products: what `between_kernels_us` multiplies takes 38 MB of inputs and 5 MB of
// outputs.
struct ProductMemory {
  cuda::DeviceMemory inputs, outputs, workspace;
};

// By pattern of kernels, microseconds of one; prints a line for each.
nlohmann::json between_kernels_us(GemmKernels& kernels, cuda::MatmulLibrary& library,
                                  const cuda::Stream& stream, ProductMemory& memory);

}  // namespace stretto::bench
