// Copies as many rows as GPU memory says there are.
#pragma once

#include "lang/lang_kernel.h"
#include "streams/kernel_store.h"

namespace stretto::runtime {

class CopyRows {
 public:
  // The GPU is current.
  CopyRows(const cuda::Device& device, KernelStore& kernels);

  // Rows without gaps, of `row_bytes` each, a multiple of 16: the first of them, as many as stand
  // at `rows_at`, at most `most`.
  void copy(const cuda::Stream& stream, cuda::DevicePtr from, cuda::DevicePtr to, size_t row_bytes,
            cuda::DevicePtr rows_at, int32_t most) const;

 private:
  const cuda::LangKernel* kernel_;
  int blocks_;
};

}  // namespace stretto::runtime
