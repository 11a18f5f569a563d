// The words of the device language: annotations, scopes, orders, comparisons, source lines.
#pragma once

#include "stretto/device/types.h"

#ifdef STRETTO_DEVICE
#define STRETTO_KERNEL __device__             // a user's kernel, or a function it calls
#define STRETTO_UNROLL_8 _Pragma("unroll 8")  // loads of eight iterations go out together
#else
#define STRETTO_KERNEL
#define STRETTO_UNROLL_8
#endif

namespace stretto::device {

// Threads among which an ordered access is ordered.
enum class Scope : uint8 { kBlock, kGpu, kSystem };

// kAcquire and kAcqRel are for loads and read-modify-writes, kRelease for stores and notifications.
enum class Order : uint8 { kRelaxed, kAcquire, kRelease, kAcqRel };

// Threads that carry out one operation together, all of them calling it with the same arguments.
enum class Group : uint8 { kThread, kWarp, kBlock };

// OpenSHMEM's SHMEM_SIGNAL_SET and SHMEM_SIGNAL_ADD.
enum class SignalOp : uint8 { kSet, kAdd };

// OpenSHMEM's SHMEM_CMP_*.
enum class Compare : uint8 { kEq, kNe, kGt, kGe, kLt, kLe };

// How long a wait may take. kLonger (by kGraceNs) is for what its sender sends only after it has
// heard from others: so a rank that never comes is named by who waits for it, and not one that
// waits for it too.
enum class Patience : uint8 { kUsual, kLonger };

STRETTO_HOST_DEVICE bool holds(uint64 value, Compare compare, uint64 bound) {
  switch (compare) {
    case Compare::kEq:
      return value == bound;
    case Compare::kNe:
      return value != bound;
    case Compare::kGt:
      return value > bound;
    case Compare::kGe:
      return value >= bound;
    case Compare::kLt:
      return value < bound;
    case Compare::kLe:
      return value <= bound;
  }
  return false;
}

// The line of the kernel that asked for an operation, for the emulator's reports; empty on the GPU.
// Functions of the language take it as their last, defaulted parameter.
#ifdef STRETTO_DEVICE
struct Where {
  STRETTO_HOST_DEVICE static Where here() { return {}; }
};
#else
struct Where {
  const char* file = "";
  int line = 0;
  static constexpr Where here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
  friend constexpr bool operator==(const Where&, const Where&) = default;
};
#endif

// The same value, but new to the compiler: what follows from it is computed again where it is used,
// and not kept in registers over a whole loop.
template <class T>
STRETTO_PRIMITIVE T renewed(T value) {
#ifdef STRETTO_DEVICE
  if constexpr (sizeof(T) == 8) {
    asm volatile("" : "+l"(value));
  } else {
    asm volatile("" : "+r"(value));
  }
#endif
  return value;
}

// The same where there are fewer uniform registers to keep it in.
template <class T>
STRETTO_PRIMITIVE T renewed_before_hopper(T value) {
#if defined(STRETTO_DEVICE) && __CUDA_ARCH__ >= 900
  return value;
#else
  return renewed(value);
#endif
}

// A pointer of the block's target: T* on the GPU, a checked pointer on the emulator.
template <class Block, class T>
using Ptr = typename Block::template Pointer<T>;

// Dynamic shared memory of the block, from a byte offset that suits T.
template <class T, class Block>
STRETTO_PRIMITIVE Ptr<Block, T> shared(Block& block, int offset_bytes) {
  return block.template shared<T>(offset_bytes);
}

}  // namespace stretto::device
