#include "tasks/tile_gemm.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "core/ceil_div.h"
#include "tasks/elements.h"

// Accumulators are an array of vectors, which scalable vectors cannot be.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tasks/tile_gemm.cpp"
#include "hwy/foreach_target.h"  // compiles this file once per instruction set
#include "hwy/highway.h"

// Sizes of the blocks that are packed to fp32 at a time. A micro panel of A stays in the L1 cache,
// the block of B in L2.
#ifndef STRETTO_TILE_GEMM_BLOCKS
#define STRETTO_TILE_GEMM_BLOCKS
namespace stretto::tasks {
inline constexpr int64_t kBlockM = 240, kBlockN = 512, kBlockK = 256;
inline constexpr int64_t kMaxMicroM = 12, kMaxMicroN = 64;
// Rows of packed A are apart by a little more than a power of two, so that they spread over the
// sets of the cache.
inline constexpr int64_t kStrideA = kBlockK + 16;
inline constexpr int64_t kStrideC = kBlockN + kMaxMicroN;
inline constexpr int64_t kScratchA = (kBlockM + kMaxMicroM) * kStrideA;
inline constexpr int64_t kScratchB = (kBlockN + kMaxMicroN) * kBlockK;
inline constexpr int64_t kScratchC = (kBlockM + kMaxMicroM) * kStrideC;
inline constexpr int64_t kAlignFloats = 32;
}  // namespace stretto::tasks
#endif

HWY_BEFORE_NAMESPACE();
namespace stretto::tasks {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using VF = hn::Vec<F32>;

// Registers: kMicroM * kMicroV accumulators, kMicroV of B, one of A.
#if HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64
constexpr int kMicroM = 12, kMicroV = 2;  // 32 registers
#else
constexpr int kMicroM = 6, kMicroV = 2;  // 16 registers
#endif
constexpr int64_t kMicroN = kMicroV * static_cast<int64_t>(hn::MaxLanes(F32()));
static_assert(kMicroM <= kMaxMicroM && kMicroN <= kMaxMicroN);

HWY_INLINE const char* element(const MatrixView& view, int64_t row, int64_t col) {
  return static_cast<const char*>(view.data) + (row * view.stride + col) * num_bytes(view.dtype);
}

// to[row][i] = a[row][i]; rows up to a multiple of kMicroM are zero.
void pack_a(const MatrixView& a, int64_t row0, int64_t rows, int64_t k0, int64_t depth, float* to) {
  for (int64_t row = 0; row < rows; ++row) {
    tasks::widen(a.dtype, element(a, row0 + row, k0), to + row * kStrideA,
                 static_cast<size_t>(depth));
  }
  for (int64_t row = rows; row < round_up(rows, kMicroM); ++row) {
    std::fill_n(to + row * kStrideA, depth, 0.0f);
  }
}

// to[i * kMicroN + lane] = from[lane][i] for 4 neighbouring lanes.
HWY_INLINE void transpose4(const float* from, int64_t depth, float* to) {
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::FixedTag<float, 4> d;
  const hn::FixedTag<double, 2> dd;
  for (; i + 4 <= depth; i += 4) {
    const auto r0 = hn::LoadU(d, from + i);
    const auto r1 = hn::LoadU(d, from + kBlockK + i);
    const auto r2 = hn::LoadU(d, from + 2 * kBlockK + i);
    const auto r3 = hn::LoadU(d, from + 3 * kBlockK + i);
    const auto a = hn::BitCast(dd, hn::InterleaveLower(d, r0, r1));  // 00 10 01 11
    const auto b = hn::BitCast(dd, hn::InterleaveLower(d, r2, r3));
    const auto c = hn::BitCast(dd, hn::InterleaveUpper(d, r0, r1));  // 02 12 03 13
    const auto e = hn::BitCast(dd, hn::InterleaveUpper(d, r2, r3));
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(dd, a, b)), d, to + i * kMicroN);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(dd, a, b)), d, to + (i + 1) * kMicroN);
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(dd, c, e)), d, to + (i + 2) * kMicroN);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(dd, c, e)), d, to + (i + 3) * kMicroN);
  }
#endif
  for (; i < depth; ++i) {
    for (int64_t lane = 0; lane < 4; ++lane) to[i * kMicroN + lane] = from[lane * kBlockK + i];
  }
}

// Panels of kMicroN columns of C (rows of B), each [depth][kMicroN]; missing columns are zero.
void pack_b(const MatrixView& b, int64_t row0, int64_t rows, int64_t k0, int64_t depth, float* to) {
  if (kMicroN % 4 != 0) {  // the scalar target
    for (int64_t row = 0; row < round_up(rows, kMicroN); ++row) {
      float wide[kBlockK] = {};
      if (row < rows) {
        tasks::widen(b.dtype, element(b, row0 + row, k0), wide, static_cast<size_t>(depth));
      }
      float* panel = to + row / kMicroN * kMicroN * kBlockK + row % kMicroN;
      for (int64_t i = 0; i < depth; ++i) panel[i * kMicroN] = wide[i];
    }
    return;
  }
  float wide[4 * kBlockK];
  for (int64_t row = 0; row < round_up(rows, kMicroN); row += 4) {
    for (int64_t lane = 0; lane < 4; ++lane) {
      float* line = wide + lane * kBlockK;
      if (row + lane < rows) {
        tasks::widen(b.dtype, element(b, row0 + row + lane, k0), line, static_cast<size_t>(depth));
      } else {
        std::fill_n(line, depth, 0.0f);
      }
    }
    transpose4(wide, depth, to + row / kMicroN * kMicroN * kBlockK + row % kMicroN);
  }
}

// c[kMicroM][kMicroN] continues its chains with `depth` more products; the first block starts at 0.
HWY_INLINE void micro_kernel(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b,
                             int64_t depth, bool first, float* HWY_RESTRICT c) {
  const F32 d;
  constexpr int64_t kLanes = kMicroN / kMicroV;
  VF acc[kMicroM][kMicroV];
#pragma GCC unroll 16
  for (int i = 0; i < kMicroM; ++i) {
#pragma GCC unroll 16
    for (int v = 0; v < kMicroV; ++v) {
      acc[i][v] = first ? hn::Zero(d) : hn::LoadU(d, c + i * kStrideC + v * kLanes);
    }
  }
  for (int64_t p = 0; p < depth; ++p) {
    VF column[kMicroV];
#pragma GCC unroll 16
    for (int v = 0; v < kMicroV; ++v) column[v] = hn::LoadU(d, b + p * kMicroN + v * kLanes);
#pragma GCC unroll 16
    for (int i = 0; i < kMicroM; ++i) {
      const VF row = hn::Set(d, a[i * kStrideA + p]);
#pragma GCC unroll 16
      for (int v = 0; v < kMicroV; ++v) acc[i][v] = hn::MulAdd(row, column[v], acc[i][v]);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kMicroM; ++i) {
#pragma GCC unroll 16
    for (int v = 0; v < kMicroV; ++v) hn::StoreU(acc[i][v], d, c + i * kStrideC + v * kLanes);
  }
}

void multiply(int64_t m, int64_t n, int64_t k, const MatrixView& a, const MatrixView& b,
              const MutableMatrixView& c, float* packed_a, float* packed_b, float* sums) {
  for (int64_t row0 = 0; row0 < m; row0 += kBlockM) {
    const int64_t rows = std::min(kBlockM, m - row0);
    for (int64_t col0 = 0; col0 < n; col0 += kBlockN) {
      const int64_t cols = std::min(kBlockN, n - col0);
      for (int64_t k0 = 0; k0 == 0 || k0 < k; k0 += kBlockK) {  // once even when k is 0
        const int64_t depth = std::min(kBlockK, k - k0);
        pack_a(a, row0, rows, k0, depth, packed_a);
        pack_b(b, col0, cols, k0, depth, packed_b);
        for (int64_t i = 0; i < rows; i += kMicroM) {
          for (int64_t j = 0; j < cols; j += kMicroN) {
            micro_kernel(packed_a + i * kStrideA, packed_b + j * kBlockK, depth, k0 == 0,
                         sums + i * kStrideC + j);
          }
        }
      }
      char* out = static_cast<char*>(c.data) + (row0 * c.stride + col0) * num_bytes(c.dtype);
      for (int64_t i = 0; i < rows; ++i) {
        tasks::round_elements(c.dtype, sums + i * kStrideC, out, static_cast<size_t>(cols));
        out += c.stride * num_bytes(c.dtype);
      }
    }
  }
}

const char* name() { return hwy::TargetName(HWY_TARGET); }

}  // namespace HWY_NAMESPACE
}  // namespace stretto::tasks
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stretto::tasks {

HWY_EXPORT(multiply);
HWY_EXPORT(name);

TileGemm::TileGemm() : scratch_(new float[kScratchA + kScratchB + kScratchC + kAlignFloats]) {}

void TileGemm::run(int64_t m, int64_t n, int64_t k, const MatrixView& a, const MatrixView& b,
                   const MutableMatrixView& c) {
  const auto address = reinterpret_cast<uintptr_t>(scratch_.get());
  const uintptr_t unit = kAlignFloats * sizeof(float);
  float* base = scratch_.get() + (unit - address % unit) % unit / sizeof(float);
  HWY_DYNAMIC_DISPATCH(multiply)
  (m, n, k, a, b, c, base, base + kScratchA, base + kScratchA + kScratchB);
}

const char* simd_name() { return HWY_DYNAMIC_DISPATCH(name)(); }

}  // namespace stretto::tasks
#endif
