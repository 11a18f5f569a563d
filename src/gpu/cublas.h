// cuBLAS, found at run time, called as PyTorch calls it: what benchmarks compare with.
#pragma once

#include <memory>
#include <string>

#include "gpu/cublas_library.h"
#include "gpu/device.h"
#include "gpu/tensor_map.h"

namespace stretto::cuda {

class Cublas {
 public:
  // Throws SystemError when there is no cuBLAS. Uses the current GPU.
  explicit Cublas(const Stream& stream);
  ~Cublas();
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;

  // C = A * B^T with fp32 accumulation; or C += A * B^T. Ranges of K that it adds up may have C's
  // type.
  void multiply(const Matrix& a, const Matrix& b, const Matrix& c, bool accumulate = false) const;

 private:
  struct Api;
  std::unique_ptr<Api> api_;
  DeviceMemory workspace_;
  CublasOwned handle_;  // uses the workspace
};

}  // namespace stretto::cuda
