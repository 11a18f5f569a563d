// cuBLAS, found at run time: what strategy `library` multiplies with and benchmarks compare with.
#pragma once

#include <memory>
#include <string>

#include "cuda/device.h"
#include "cuda/tensor_map.h"

namespace stretto::cuda {

// Empty when it can be used here.
std::string why_no_cublas();

class Cublas {
 public:
  // Throws SystemError when there is no cuBLAS. Uses the current GPU.
  // With `sums_in_fp32`, ranges of K that it adds up are fp32 until then; else they may have C's
  // type, as PyTorch lets them.
  explicit Cublas(const Stream& stream, bool sums_in_fp32 = false);
  ~Cublas();
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;

  // From now on work goes to this stream; the caller orders it behind what other streams were
  // given, since all share a workspace.
  void use(const Stream& stream) const;
  // C = A * B^T with fp32 accumulation, as PyTorch calls it; or C += A * B^T.
  void multiply(const Matrix& a, const Matrix& b, const Matrix& c, bool accumulate = false) const;

 private:
  struct Api;
  std::unique_ptr<Api> api_;
  void* handle_ = nullptr;
  DeviceMemory workspace_;
  mutable StreamHandle used_ = nullptr;
  mutable bool is_used_ = false;
};

}  // namespace stretto::cuda
