#include "op/stage_faults.h"

#include <fmt/format.h>

namespace stretto {

std::string shape(const Tensor& tensor) {
  return fmt::format("{} [{}, {}]", tensor.name, tensor.rows, tensor.cols);
}

std::string fault_in_type(StageKind kind, const Tensor& one, DType dtype) {
  if (one.matrices > 1) {
    return fmt::format("{} takes no stack of matrices: {}", to_string(kind), one.name);
  }
  if (one.dtype == dtype) return {};
  return fmt::format("{} computes in {}, and {} is {}", to_string(kind), to_string(dtype), one.name,
                     to_string(one.dtype));
}

std::string fault_in_ids(const Tensor& ids, int64_t experts, std::string_view called) {
  if (!is_index(ids.dtype)) {
    return fmt::format("{} says which matrices are meant: give it as i32 or i64", ids.name);
  }
  if (ids.cols <= experts) return {};
  return fmt::format("each row of {} chooses {} of {} {}: take at most {}", ids.name, ids.cols,
                     experts, called, experts);
}

}  // namespace stretto
