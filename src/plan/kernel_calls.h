// Collectives that a kernel of the graph's makes (edge_kernel.h): their sizes, and what is wrong
// with them.
#pragma once

#include <cstdint>
#include <string>

#include "stretto/plan.h"

namespace stretto {

// The collective of the edge.
CollectiveKind collective_of(Edge edge);

// As EdgeArgs has them (device/lang/edge_kernel.h): vectors of 16 bytes of a rank's part, and of
// all ranks'. No call is made of none.
struct KernelCallSizes {
  int64_t part = 0, count = 0;
  bool operator==(const KernelCallSizes&) const = default;
};
KernelCallSizes kernel_call_sizes(const Plan& plan, const Instr& instr);

// Of a collective with a kernel whose regions are those of its kind; empty: nothing is wrong.
std::string fault_in_kernel_call(const Plan& plan, const Instr& instr);

// Whether the graph's kernels make collectives of the plan.
bool any_kernel_calls(const Plan& plan);

// On GPUs: whether kernels of the device language make a collective, the graph's or, of a plan with
// low_latency_collectives, the project's own; whether they make any of the plan's; and whether NCCL
// does.
inline bool is_by_language(const Plan& plan, const Instr& collective) {
  return plan.low_latency_collectives || collective.kernel() > 0;
}
bool any_by_language(const Plan& plan);
bool any_by_nccl(const Plan& plan);

}  // namespace stretto
