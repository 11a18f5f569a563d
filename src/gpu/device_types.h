// Element types as the enumerations of kernels name them.
#pragma once

#include "stretto/dtype.h"

namespace stretto::cuda {

// Type: one of the device's that has bf16, fp16 and fp32.
template <typename Type>
Type device_type(DType dtype) {
  return dtype == DType::bf16 ? Type::bf16 : dtype == DType::fp16 ? Type::fp16 : Type::fp32;
}

}  // namespace stretto::cuda
