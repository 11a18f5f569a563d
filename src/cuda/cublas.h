// cuBLAS as the GEMM to compare with, found at run time.
#pragma once

#include <memory>

#include "cuda/device.h"
#include "cuda/tensor_map.h"

namespace stretto::cuda {

class Cublas {
 public:
  // Throws SystemError when there is no cuBLAS. Uses the current GPU.
  explicit Cublas(const Stream& stream);
  ~Cublas();
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;

  // C = A * B^T with fp32 accumulation, as PyTorch calls it; or C += A * B^T.
  void multiply(const Matrix& a, const Matrix& b, const Matrix& c, bool accumulate = false) const;

 private:
  struct Api;
  std::unique_ptr<Api> api_;
  void* handle_ = nullptr;
  DeviceMemory workspace_;
};

}  // namespace stretto::cuda
