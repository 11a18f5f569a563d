// Who makes the collectives of a plan: all of them NCCL, or kernels of the device language.
#pragma once

#include <span>

#include "stretto/operator.h"
#include "stretto/schedule.h"

namespace stretto {

// Where a preset, or a text that says neither collectives= nor gemm=few-rows, has low-latency ones
// of some products beside NCCL's of others, which have no low-latency ones, NCCL makes all of them,
// and cuBLAS multiplies where few rows were. Rows that go by ids have no such collectives: with
// them the schedules stay as they are, and are refused. `schedules` are those of `products`.
void take_nccl_where_any_must(std::span<const OperatorSegment* const> products,
                              std::span<Schedule* const> schedules);

}  // namespace stretto
