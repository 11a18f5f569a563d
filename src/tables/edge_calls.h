// Collectives that kernels of the graph's make, on GPUs: what they run as, and which cannot.
#pragma once

#include <string>

#include "plan/kernel_calls.h"
#include "tables/low_latency_shape.h"

namespace stretto::cuda {

// What a call of the collective runs as, of which `instr` is a part: the kernel from the text of
// its header, the grid that the graph says, on no more than `sms`, and its memory.
struct EdgeShape : LowLatencyShape {
  size_t signals = 0;  // symmetric words
  KernelCallSizes sizes;
};
EdgeShape edge_shape(const Plan& plan, const Instr& instr, int sms);

// Why the kernels cannot make the plan's collectives, of runs of fewer rows where it serves; empty
// when they can.
std::string why_no_edge_calls(const Plan& plan, bool serves);

// What a kernel lacks to be compiled, or a plan's kernels do; empty when nothing.
std::string why_no_source(const EdgeKernel& kernel);
std::string why_no_sources(const Plan& plan);

}  // namespace stretto::cuda
