// Tile GEMM on the CPU: C[m, n] = A[m, k] * B[n, k]^T with fp32 accumulation, rounded once.
//
// Bit-reproducible: an element of C is the chain acc = fma(a[i], b[i], acc) over i = 0 .. k-1 from
// acc = 0, whatever the tile's shape, its place, and how the work is blocked. So every schedule
// that computes an element from the same rows of A and B, in the same ranges of K, gets the same
// bits. (An instruction set
// without FMA rounds twice a step; products of bf16 and fp16 are exact in fp32, so only fp32 inputs
// can tell.)
#pragma once

#include <cstdint>
#include <memory>

#include "stretto/dtype.h"

namespace stretto::tasks {

// Row-major; `stride` counts elements from one row to the next.
struct MatrixView {
  const void* data = nullptr;
  int64_t stride = 0;
  DType dtype = DType::bf16;
};

struct MutableMatrixView {
  void* data = nullptr;
  int64_t stride = 0;
  DType dtype = DType::bf16;
};

// Keeps the packing memory between calls (below 2 MB); one object a thread.
class TileGemm {
 public:
  TileGemm();
  void run(int64_t m, int64_t n, int64_t k, const MatrixView& a, const MatrixView& b,
           const MutableMatrixView& c);

 private:
  std::unique_ptr<float[]> scratch_;
};

// The instruction set in use, as Highway names it: "AVX3", "AVX2", "NEON", ...
const char* simd_name();

}  // namespace stretto::tasks
