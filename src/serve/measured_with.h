// What changes times beside the operator, the machine and the kind of GPU: measurements are kept
// under it.
#pragma once

#include <string>

#include "fabric/fabric.h"

namespace stretto {

// Collective; the same text on all processes. "132 SMs, CUDA 13.0, ..., cuBLAS 130100, NCCL 2.28.9,
// windows, 8 processes, links nnnnnnn": of every pair of GPUs n for a link with atomics (NVLink), p
// for peer access, - for none. Where ranks share GPUs, which rank has which.
std::string measured_with(fabric::Fabric& fabric);

}  // namespace stretto
