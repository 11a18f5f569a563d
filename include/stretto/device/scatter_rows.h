// Rows of a finished chunk that go where a table says, for the warp that stores: TMA would take a
// store for each, which are too many.
#pragma once

#include "stretto/device/gemm_task.h"
#include "stretto/device/ptx_memory.h"

namespace stretto::device {

#ifdef STRETTO_DEVICE

// The whole warp: 32 rows of kRowBytes in shared memory, swizzled as a store's map has it, by as
// many lanes each as they have vectors. Lane i knows the target of the chunk's row `first` + i.
// `column_byte` is where in its target a row begins. When it returns, the rows have been read. A
// lane has kAtOnce vectors on their way: two where a warp has no registers for four.
template <int32 kRowBytes, uint32 kAtOnce = 4>
STRETTO_DEVICE void scatter_rows(const ScatteredRows& to, uint32 chunk, uint32 first, uint32 target,
                                 uint32 column_byte) {
  constexpr uint32 kLanes = kRowBytes / 16, kTogether = 32 / kLanes;
  constexpr int32 kUnrolled = kAtOnce == 4 ? 32 : 1;
  const uint32 lane = threadIdx.x % 32, piece = lane % kLanes;
  const uint32 byte = column_byte + piece * 16;
  const bool is_inside = byte < to.column_bytes;
#pragma unroll kUnrolled
  for (uint32 row = 0; row < 32; row += kAtOnce * kTogether) {
    Vec16 part[kAtOnce];
#pragma unroll
    for (uint32 i = 0; i < kAtOnce; ++i) {
      const uint32 at = first + row + i * kTogether + lane / kLanes;
      const uint32 swizzled = piece ^ ((at * kRowBytes >> 7) % kLanes);
      part[i] = load_shared_vector(chunk + at * kRowBytes + swizzled * 16);
    }
#pragma unroll
    for (uint32 i = 0; i < kAtOnce; ++i) {
      const uint32 own =
          __shfl_sync(0xffffffffu, target, static_cast<int>(row + i * kTogether + lane / kLanes));
      if (own < to.rows && is_inside) {
        store_vector(to.address + own * to.row_bytes + byte, part[i]);
      }
    }
  }
  __syncwarp();
}

#endif  // STRETTO_DEVICE

}  // namespace stretto::device
