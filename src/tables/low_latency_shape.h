// What a call of a low-latency collective runs as: its kernel, its grid, and its memory.
#pragma once

#include <cstddef>

#include "lang/lang_kernel.h"
#include "launch/library_products.h"
#include "stretto/device/few_rows_task.h"
#include "stretto/device/lang/gpu_block.h"
#include "stretto/device/lang/kernels/chosen_rows.h"
#include "tables/low_latency.h"

namespace stretto::cuda {

// Sizes of a dispatch or combine as its kernel takes them.
device::ChosenSizes chosen_sizes_of(const LowLatencyCall& call);

inline constexpr int kLowLatencyThreads = 512;  // of a block; norms take as many as rows ask for

// What a call runs as. Every rank sends its rows to all others, or of large all-reduces to their
// owners, who send on the sums: the kernel, its grid, and the memory that its calls share.
struct LowLatencyShape {
  LangKernelName kernel;
  int threads = kLowLatencyThreads;
  int blocks = 1;
  int shared_bytes = 0;      // of a block
  int route_blocks = 0;      // that make a partition
  bool looks_early = false;  // it can (SumChosenArgs)
  size_t slot_vectors = 0;   // symmetric, of 16 bytes
};

// The kernel of a product of few rows (few_rows_kernel.h).
device::FewRowsConfig few_rows_config(const Plan& plan, const Product& product);

// Copies rows whose number stands in memory (copy_rows.h); at most kLowLatencyThreads a block.
LangKernelName copy_rows_kernel();

// `sms`: those that the rank has.
LowLatencyShape low_latency_shape(const LowLatencyCall& call, int ranks, int sms);
// The same of a call whose rows the kernel before it on the stream sends (few_rows_task.h): a sum
// in one hop, however many they are.
LowLatencyShape receiving_shape(const LowLatencyCall& call, int ranks, int sms);

}  // namespace stretto::cuda
