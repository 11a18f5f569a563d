// What both interfaces of cuBLAS have in common: the libraries, found at run time, and numbers of
// its headers.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "gpu/dynamic_library.h"
#include "stretto/dtype.h"

namespace stretto::cuda {

// Empty when both can be used here.
std::string why_no_cublas();

// Throw SystemError(why_no_cublas()).
DynamicLibrary open_cublas();
DynamicLibrary open_cublas_lt();

// Something of cuBLAS's, and what frees it.
using CublasOwned = std::unique_ptr<void, int (*)(void*)>;

inline constexpr int kCublasFp32Sums = 68;  // CUBLAS_COMPUTE_32F
inline constexpr int kCublasTranspose = 1;
inline constexpr size_t kCublasWorkspaceBytes = size_t{32} << 20;  // as PyTorch gives it on Hopper
// cudaDataType
int cublas_type(DType dtype);

}  // namespace stretto::cuda
