// What the host can tell is wrong with a kernel's arguments before it launches it: memory that is
// missing, not aligned to 16 bytes, overlaps other memory of the call, or is not symmetric where
// peers reach it, and sizes that the kernel does not serve. Each throws UsageError with one line.
#pragma once

#include "lang/argument_checks.h"
#include "stretto/device/lang/gpu_block.h"
#include "stretto/device/lang/kernels/all_reduce.h"
#include "stretto/device/lang/kernels/all_reduce_norm.h"
#include "stretto/device/lang/kernels/all_to_all.h"
#include "stretto/device/lang/kernels/combine.h"
#include "stretto/device/lang/kernels/copy_rows.h"
#include "stretto/device/lang/kernels/dispatch_args.h"
#include "stretto/device/lang/kernels/gather_scatter.h"
#include "stretto/device/lang/kernels/movers.h"
#include "stretto/device/lang/kernels/norm.h"
#include "stretto/device/lang/kernels/scatter_norm_gather.h"

namespace stretto::cuda {

// A launch, as far as its arguments depend on it.
struct LangCall {
  int ranks;
  int blocks;
  Heap heap;
};

// Whether a kernel's blocks wait for others, so that its grid must fit on the GPU at once.
template <class Args>
inline constexpr bool kBlocksWait = true;
template <>
inline constexpr bool kBlocksWait<device::AddNormArgs<device::GpuBlock>> = false;
template <>
inline constexpr bool kBlocksWait<device::CopyRowsArgs<device::GpuBlock>> = false;

void check_arguments(const device::AllReduceArgs<device::GpuBlock>& args, const LangCall& call);
void check_arguments(const device::PartsArgs<device::GpuBlock>& args, const LangCall& call);
void check_arguments(const device::AllReduceNormArgs<device::GpuBlock>& args, const LangCall& call);
void check_arguments(const device::OwnRowsNormArgs<device::GpuBlock>& args, const LangCall& call);
void check_arguments(const device::ScatterNormGatherArgs<device::GpuBlock>& args,
                     const LangCall& call);
void check_arguments(const device::AllToAllArgs<device::GpuBlock>& args, const LangCall& call);
void check_arguments(const device::DispatchArgs<device::GpuBlock>& args, const LangCall& call);
void check_arguments(const device::CombineArgs<device::GpuBlock>& args, const LangCall& call);
void check_arguments(const device::CopyRowsArgs<device::GpuBlock>& args, const LangCall& call);
void check_arguments(const device::AddNormArgs<device::GpuBlock>& args, const LangCall& call);
void check_arguments(const device::GatherArgs<device::GpuBlock>& args, const LangCall& call);
void check_arguments(const device::SlotReduceArgs<device::GpuBlock>& args, const LangCall& call);

}  // namespace stretto::cuda
