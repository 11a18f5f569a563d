// Structs of stretto/c.h as the library's own types.
#pragma once

#include <vector>

#include "c/boundary.h"
#include "stretto/c.h"
#include "stretto/call.h"
#include "stretto/operator.h"

namespace stretto::c {

// Throws UsageError for what makes no operator.
Operator operator_of(const stretto_operator* op);

// A tensor at a call, and whose it is.
struct TensorOfRank {
  int rank = 0;
  CallTensor tensor;
};
// Names live as long as `op`, or the caller's texts.
std::vector<TensorOfRank> call_tensors(const Operator& op, const stretto_call_tensor* tensors,
                                       size_t count);

// Fills in what is known of the tensor with that index.
void tell_tensor(const Operator& op, int32_t rank, int32_t index, stretto_tensor_info* info);

}  // namespace stretto::c
