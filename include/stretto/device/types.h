// Fixed-size integers, 16 bytes that move at once, and function annotations, for code that compiles
// on the host and, alone, under NVRTC, which has no <cstdint>.
#pragma once

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define STRETTO_DEVICE __device__ __forceinline__
#define STRETTO_HOST_DEVICE __host__ __device__ constexpr
#define STRETTO_PRIMITIVE __device__ __forceinline__  // also runs on the emulator
#define STRETTO_UNROLL _Pragma("unroll")              // a loop of few iterations over registers
#define STRETTO_ROLLED _Pragma("unroll 1")            // a loop that is long enough as it is
#else
#define STRETTO_HOST_DEVICE constexpr
#define STRETTO_PRIMITIVE inline
#define STRETTO_UNROLL
#define STRETTO_ROLLED
#endif

namespace stretto::device {

using uint8 = unsigned char;
using uint16 = unsigned short;
using uint32 = unsigned int;
using uint64 = unsigned long long;
using int32 = int;
using int64 = long long;

static_assert(sizeof(uint16) == 2 && sizeof(uint32) == 4 && sizeof(uint64) == 8);

// 16 bytes that one thread moves with one instruction. The memory model promises nothing about the
// whole: a reader can see some words new and some old.
struct alignas(16) Vec16 {
  uint32 word[4];
};

}  // namespace stretto::device
