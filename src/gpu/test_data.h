// Inputs and comparisons for verifying and timing kernels on the GPU (stretto/device/test_data.h).
#pragma once

#include "gpu/compiler.h"
#include "gpu/device.h"
#include "stretto/device/test_data.h"
#include "stretto/dtype.h"

namespace stretto::cuda {

std::string test_data_source();

class TestData {
 public:
  TestData(const Device& device, const Compiler& compiler);

  void fill(const Stream& stream, DevicePtr to, int64_t count, DType dtype, device::Fill fill,
            uint64_t seed, float scale = 1) const;
  // Elements of `values` against the fp32 reference. Waits for the stream.
  device::Comparison compare(const Stream& stream, DevicePtr values, DType dtype,
                             DevicePtr reference, int64_t count) const;
  // c[m, n] in fp32 = a[m, k] * b[n, k]^T in double precision; rows lie close together.
  void multiply(const Stream& stream, DevicePtr a, DevicePtr b, DevicePtr c, int64_t m, int64_t n,
                int64_t k, DType dtype) const;
  // A stage of an operator, of whole tensors.
  void evaluate(const Stream& stream, const device::StageParams& params) const;

 private:
  std::string cubin_;
  Kernel fill_, compare_, multiply_, evaluate_;
  int blocks_;
};

// sqrt(sum (value - reference)^2 / sum reference^2); infinite when a value is not finite.
double relative_error(const device::Comparison& comparison);

}  // namespace stretto::cuda
