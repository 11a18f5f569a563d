// What stages that go row by row make of exact values and of how far an implementation may be from
// them.
#pragma once

#include "op/rows.h"
#include "stretto/operator.h"

namespace stretto {

// Exponentials and quotients of an implementation, relative. GPUs' fast ones are within a few times
// 2^-22; operators of fp32 are not for them, and others round four times to fp32.
inline double activation_roundoff(DType dtype) { return dtype == DType::fp32 ? 0x1p-22 : 0x1p-19; }

// The result of a stage of an operator of a type, but of products, and of what goes by indices.
Rows stage_rows(const Stage& stage, DType dtype, const Rows& x, const Rows* y);

}  // namespace stretto
