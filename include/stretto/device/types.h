// Fixed-size integers and function annotations for code that compiles on the host and, alone, under
// NVRTC, which has no <cstdint>.
#pragma once

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define STRETTO_DEVICE __device__ __forceinline__
#define STRETTO_HOST_DEVICE __host__ __device__ constexpr
#else
#define STRETTO_HOST_DEVICE constexpr
#endif

namespace stretto::device {

using uint8 = unsigned char;
using uint16 = unsigned short;
using uint32 = unsigned int;
using uint64 = unsigned long long;
using int32 = int;
using int64 = long long;

static_assert(sizeof(uint16) == 2 && sizeof(uint32) == 4 && sizeof(uint64) == 8);

}  // namespace stretto::device
