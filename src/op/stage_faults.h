// What rules of stages say of operands that do not fit.
#pragma once

#include <string>
#include <string_view>

#include "stretto/operator.h"

namespace stretto {

// NAME [rows, columns].
std::string shape(const Tensor& tensor);
// What takes the operator's type takes no other, and no stack; empty where it has that.
std::string fault_in_type(StageKind kind, const Tensor& one, DType dtype);
// Why rows of IDS do not choose among so many experts, or what they are called; empty: they do.
std::string fault_in_ids(const Tensor& ids, int64_t experts, std::string_view called = "matrices");

}  // namespace stretto
