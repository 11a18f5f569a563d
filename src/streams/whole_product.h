// A library's product of all rows that a run may have, where only memory says how many it has: of
// the caller's result the others must stay as they were.
#pragma once

#include "streams/copy_rows.h"

namespace stretto::runtime {

class WholeProduct {
 public:
  // Of a result of up to `rows` rows without gaps, of `row_bytes` each, a multiple of 16. The
  // rank's GPU is current.
  WholeProduct(const cuda::Device& device, KernelStore& kernels, int64_t rows, int64_t row_bytes)
      : rows_(device, kernels),
        row_bytes_(static_cast<size_t>(row_bytes)),
        memory_(static_cast<size_t>(rows * row_bytes)) {}

  // Where the library writes it.
  cuda::DevicePtr address() const { return memory_.address(); }
  // As many of its first rows as stand at `rows_at`, at most `most`.
  void copy(const cuda::Stream& stream, cuda::DevicePtr result, cuda::DevicePtr rows_at,
            int32_t most) const {
    rows_.copy(stream, memory_.address(), result, row_bytes_, rows_at, most);
  }

 private:
  CopyRows rows_;
  size_t row_bytes_;
  cuda::DeviceMemory memory_;
};

}  // namespace stretto::runtime
