// Kernels of a graph's own, compiled for the emulator by the machine's C++ compiler and loaded.
#pragma once

#include "stretto/plan.h"

namespace stretto::cli {

// Those that the plan calls and that are not there yet, from the texts of their headers. Throws
// UsageError where a header is missing or does not compile, or where there is no compiler;
// SystemError.
void build_kernels(const Plan& plan);

}  // namespace stretto::cli
