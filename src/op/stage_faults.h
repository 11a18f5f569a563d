// What rules of stages say of operands that do not fit.
#pragma once

#include <string>

#include "stretto/operator.h"

namespace stretto {

// NAME [rows, columns].
std::string shape(const Tensor& tensor);
// What takes the operator's type takes no other, and no stack; empty where it has that.
std::string fault_in_type(StageKind kind, const Tensor& one, DType dtype);

}  // namespace stretto
