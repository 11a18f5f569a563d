// What 8 x H200 measured, 2026-11-20, CUDA 13.0, NCCL 2.28.9, multicast off: microseconds, medians
// in captured graphs. Sequential is cuBLAS, then NCCL; the others are other people's overlapped
// code.
#pragma once

#include "stretto/operator.h"

namespace stretto::testing_sim {

struct MeasuredRow {
  OpKind kind;
  int64_t m, n, k;
  double sequential, async_tp, parallel_kittens;  // 0: not measured
};

// clang-format off
inline constexpr MeasuredRow kMeasured[] = {
    {OpKind::ag_gemm, 512, 57344, 8192, 135.7, 278.4, 0},
    {OpKind::ag_gemm, 1024, 57344, 8192, 247.7, 295.6, 0},
    {OpKind::ag_gemm, 2048, 57344, 8192, 445.5, 424.2, 487.3},
    {OpKind::ag_gemm, 4096, 57344, 8192, 879.6, 811.3, 907.9},
    {OpKind::ag_gemm, 8192, 57344, 8192, 1707.2, 1670.9, 1544.0},
    {OpKind::ag_gemm, 512, 49152, 12288, 167.0, 408.2, 0},
    {OpKind::ag_gemm, 1024, 49152, 12288, 314.7, 365.2, 0},
    {OpKind::ag_gemm, 2048, 49152, 12288, 572.7, 572.9, 649.0},
    {OpKind::ag_gemm, 4096, 49152, 12288, 1108.2, 998.8, 1182.6},
    {OpKind::ag_gemm, 8192, 49152, 12288, 2191.7, 2032.7, 2026.7},
    {OpKind::ag_gemm, 512, 28672, 4096, 63.0, 127.4, 0},
    {OpKind::ag_gemm, 1024, 28672, 4096, 94.6, 140.0, 0},
    {OpKind::ag_gemm, 2048, 28672, 4096, 163.9, 168.9, 182.0},
    {OpKind::ag_gemm, 4096, 28672, 4096, 304.6, 235.6, 306.2},
    {OpKind::ag_gemm, 8192, 28672, 4096, 531.3, 387.5, 449.3},
    {OpKind::ag_gemm, 512, 10240, 8192, 76.3, 132.7, 0},
    {OpKind::ag_gemm, 1024, 10240, 8192, 104.4, 160.2, 0},
    {OpKind::ag_gemm, 2048, 10240, 8192, 185.0, 213.0, 231.2},
    {OpKind::ag_gemm, 4096, 10240, 8192, 325.8, 294.3, 384.3},
    {OpKind::ag_gemm, 8192, 10240, 8192, 603.7, 446.7, 597.7},
    {OpKind::gemm_rs, 512, 8192, 28672, 92.5, 246.2, 0},
    {OpKind::gemm_rs, 1024, 8192, 28672, 156.9, 260.5, 133.9},
    {OpKind::gemm_rs, 2048, 8192, 28672, 286.4, 321.0, 230.5},
    {OpKind::gemm_rs, 4096, 8192, 28672, 527.9, 434.3, 409.9},
    {OpKind::gemm_rs, 8192, 8192, 28672, 1031.1, 794.4, 799.8},
    {OpKind::gemm_rs, 512, 12288, 49152, 172.0, 373.4, 0},
    {OpKind::gemm_rs, 1024, 12288, 49152, 304.5, 391.7, 264.9},
    {OpKind::gemm_rs, 2048, 12288, 49152, 568.7, 531.3, 486.9},
    {OpKind::gemm_rs, 4096, 12288, 49152, 1106.8, 1053.7, 980.8},
    {OpKind::gemm_rs, 8192, 12288, 49152, 2182.6, 2053.8, 1944.4},
    {OpKind::gemm_rs, 512, 4096, 14336, 49.3, 155.2, 0},
    {OpKind::gemm_rs, 1024, 4096, 14336, 73.3, 184.2, 64.7},
    {OpKind::gemm_rs, 2048, 4096, 14336, 119.2, 210.2, 100.6},
    {OpKind::gemm_rs, 4096, 4096, 14336, 207.9, 259.9, 169.5},
    {OpKind::gemm_rs, 8192, 4096, 14336, 374.4, 370.6, 288.0},
    {OpKind::gemm_rs, 512, 8192, 8192, 64.4, 169.4, 0},
    {OpKind::gemm_rs, 1024, 8192, 8192, 101.3, 202.1, 82.8},
    {OpKind::gemm_rs, 2048, 8192, 8192, 172.8, 267.7, 155.9},
    {OpKind::gemm_rs, 4096, 8192, 8192, 314.9, 342.5, 255.0},
    {OpKind::gemm_rs, 8192, 8192, 8192, 586.8, 508.7, 472.6},
    {OpKind::gemm_ar, 512, 8192, 28672, 121.8, 0, 0},
    {OpKind::gemm_ar, 1024, 8192, 28672, 202.9, 0, 0},
    {OpKind::gemm_ar, 2048, 8192, 28672, 381.8, 0, 0},
    {OpKind::gemm_ar, 4096, 8192, 28672, 694.7, 0, 0},
    {OpKind::gemm_ar, 8192, 8192, 28672, 1343.6, 0, 0},
    {OpKind::gemm_ar, 512, 12288, 49152, 207.5, 0, 0},
    {OpKind::gemm_ar, 1024, 12288, 49152, 376.9, 0, 0},
    {OpKind::gemm_ar, 2048, 12288, 49152, 693.6, 0, 0},
    {OpKind::gemm_ar, 4096, 12288, 49152, 1342.9, 0, 0},
    {OpKind::gemm_ar, 8192, 12288, 49152, 2628.1, 0, 0},
    {OpKind::gemm_ar, 512, 4096, 14336, 66.3, 0, 0},
    {OpKind::gemm_ar, 1024, 4096, 14336, 102.3, 0, 0},
    {OpKind::gemm_ar, 2048, 4096, 14336, 165.5, 0, 0},
    {OpKind::gemm_ar, 4096, 4096, 14336, 305.1, 0, 0},
    {OpKind::gemm_ar, 8192, 4096, 14336, 537.1, 0, 0},
    {OpKind::gemm_ar, 512, 8192, 8192, 92.0, 0, 0},
    {OpKind::gemm_ar, 1024, 8192, 8192, 145.4, 0, 0},
    {OpKind::gemm_ar, 2048, 8192, 8192, 272.9, 0, 0},
    {OpKind::gemm_ar, 4096, 8192, 8192, 478.6, 0, 0},
    {OpKind::gemm_ar, 8192, 8192, 8192, 903.2, 0, 0},
};
// clang-format on

}  // namespace stretto::testing_sim
