// Ordered loads, stores and fences, as PTX's memory model names them.
//
// A flag between GPUs needs `sys` scope. A release covers what its thread did before, and what
// other threads did before a barrier that this thread has passed.
#pragma once

#include "stretto/device/types.h"

namespace stretto::device {

STRETTO_DEVICE uint64 load_relaxed_sys(const uint64* address) {
  uint64 value;
  asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(address) : "memory");
  return value;
}

STRETTO_DEVICE uint32 load_relaxed_sys(const uint32* address) {
  uint32 value;
  asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
  return value;
}

// Acquires; it waits for nothing that the SM has under way, as a fence does.
STRETTO_DEVICE void acquire_sys(const uint64* address) {
  [[maybe_unused]] uint64 value;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(address) : "memory");
}

STRETTO_DEVICE void store_relaxed_sys(uint32* address, uint32 value) {
  asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}

// Adds to a counter, anywhere in the system, after everything this thread has observed or written.
STRETTO_DEVICE void add_release_sys(uint64* address, uint64 amount) {
  asm volatile("red.release.sys.global.add.u64 [%0], %1;" ::"l"(address), "l"(amount) : "memory");
}

// The same without order: a release together with a fence before it.
STRETTO_DEVICE void add_relaxed_sys(uint64* address, uint64 amount) {
  asm volatile("red.relaxed.sys.global.add.u64 [%0], %1;" ::"l"(address), "l"(amount) : "memory");
}

// Adds to a counter of this GPU, without order. Returns the old value.
STRETTO_DEVICE uint32 add_relaxed_gpu(uint32* address, uint32 amount) {
  uint32 old;
  asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], %2;"
               : "=r"(old)
               : "l"(address), "r"(amount)
               : "memory");
  return old;
}

// To two counters, behind everything that this thread has observed or written: whoever acquires
// either sees it.
STRETTO_DEVICE void add_two_release_gpu(uint32* first, uint32* second, uint32 amount) {
  asm volatile(
      "fence.acq_rel.gpu;\n"
      "red.relaxed.gpu.global.add.u32 [%0], %2;\n"
      "red.relaxed.gpu.global.add.u32 [%1], %2;" ::"l"(first),
      "l"(second), "r"(amount)
      : "memory");
}
STRETTO_DEVICE uint32 load_acquire_gpu(const uint32* address) {
  uint32 value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
  return value;
}

// Counts to `count` and begins again at 0, after everything this thread has observed or written and
// before what it does next. Returns the old value.
STRETTO_DEVICE uint32 next_of_ring_acq_rel_gpu(uint32* address, uint32 count) {
  uint32 old;
  asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
               : "=r"(old)
               : "l"(address), "r"(count - 1)
               : "memory");
  return old;
}

// Returns the old value.
STRETTO_DEVICE uint32 exchange_relaxed_sys(uint32* address, uint32 value) {
  uint32 old;
  asm volatile("atom.relaxed.sys.global.exch.b32 %0, [%1], %2;"
               : "=r"(old)
               : "l"(address), "r"(value)
               : "memory");
  return old;
}

STRETTO_DEVICE void fence_acq_rel_sys() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }

// Besides, of two threads that each store, make it and then load what the other stored, one sees
// it.
STRETTO_DEVICE void fence_sc_sys() { asm volatile("fence.sc.sys;" ::: "memory"); }

// Orders ordinary accesses before with asynchronous ones (TMA, wgmma) after, in every state space.
STRETTO_DEVICE void fence_proxy_async() { asm volatile("fence.proxy.async;" ::: "memory"); }

// The same for this block's shared memory only.
STRETTO_DEVICE void fence_proxy_async_shared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// A word in this block's shared memory that publishes what its writer did or observed before.
STRETTO_DEVICE void store_release_shared(uint32 address, uint32 value) {
  asm volatile("st.release.cta.shared::cta.u32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}
STRETTO_DEVICE uint32 load_acquire_shared(uint32 address) {
  uint32 value;
  asm volatile("ld.acquire.cta.shared::cta.u32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
  return value;
}

// Ordinary accesses to this block's shared memory.
STRETTO_DEVICE void store_shared(uint32 address, uint64 value) {
  asm volatile("st.shared::cta.u64 [%0], %1;" ::"r"(address), "l"(value) : "memory");
}
STRETTO_DEVICE uint64 load_shared(uint32 address) {
  uint64 value;
  asm volatile("ld.shared::cta.u64 %0, [%1];" : "=l"(value) : "r"(address) : "memory");
  return value;
}

STRETTO_DEVICE void store_shared_word(uint32 address, uint32 value) {
  asm volatile("st.shared::cta.u32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}

// Four matrices of eight by eight 16-bit elements, of which a lane has in each two elements of row
// lane / 4, are stored as their transposes: lane 8 i + r says where row r of matrix i goes, 16
// bytes.
STRETTO_DEVICE void store_matrices_transposed(uint32 address, const uint32 (&words)[4]) {
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
      "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
      : "memory");
}
STRETTO_DEVICE uint32 load_shared_word(uint32 address) {
  uint32 value;
  asm volatile("ld.shared::cta.u32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
  return value;
}

// Sixteen bytes from global to shared memory, past registers and the SM's cache. Ordinary accesses,
// unlike TMA's.
STRETTO_DEVICE void copy_async(uint32 destination, uint64 source) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(destination), "l"(source)
               : "memory");
}

// The thread's own copies have come, and it may read them.
STRETTO_DEVICE void await_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// Of 16 bytes, or of 0: then zeros come, and nothing is read.
STRETTO_DEVICE void copy_async_or_zero(uint32 destination, uint64 source, uint32 bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(destination), "l"(source),
               "r"(bytes)
               : "memory");
}

// Four at once, kStep bytes apart in shared memory: so that no copy waits until the one before has
// read its address. `bytes` of the first two and of the others are 16, or 0: then zeros come, and
// nothing is read.
template <int32 kStep>
STRETTO_DEVICE void copy_four_async(uint32 destination, uint64 a, uint64 b, uint64 c, uint64 d,
                                    uint32 bytes, uint32 bytes_of_others) {
  asm volatile(
      "cp.async.cg.shared.global [%0], [%1], 16, %5;\n"
      "cp.async.cg.shared.global [%0 + %7], [%2], 16, %5;\n"
      "cp.async.cg.shared.global [%0 + %8], [%3], 16, %6;\n"
      "cp.async.cg.shared.global [%0 + %9], [%4], 16, %6;" ::"r"(destination),
      "l"(a), "l"(b), "l"(c), "l"(d), "r"(bytes), "r"(bytes_of_others), "n"(kStep), "n"(2 * kStep),
      "n"(3 * kStep)
      : "memory");
}

// Two of these.
template <int32 kStep>
STRETTO_DEVICE void copy_two_async(uint32 destination, uint64 a, uint64 b, uint32 bytes) {
  asm volatile(
      "cp.async.cg.shared.global [%0], [%1], 16, %3;\n"
      "cp.async.cg.shared.global [%0 + %4], [%2], 16, %3;" ::"r"(destination),
      "l"(a), "l"(b), "r"(bytes), "n"(kStep)
      : "memory");
}

// Vectors of global memory that are read or written once, past the SM's cache.
STRETTO_DEVICE Vec16 load_vector(uint64 address) {
  Vec16 v;
  asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
               : "l"(address)
               : "memory");
  return v;
}
// Zeros, and nothing is read, where it is not there. No branch, so that many can begin together.
STRETTO_DEVICE Vec16 load_vector_if(bool is_there, uint64 address) {
  Vec16 v{};
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.u32 p, %5, 0;\n"
      "@p ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];\n}"
      : "+r"(v.word[0]), "+r"(v.word[1]), "+r"(v.word[2]), "+r"(v.word[3])
      : "l"(address), "r"(static_cast<uint32>(is_there))
      : "memory");
  return v;
}
STRETTO_DEVICE void store_vector(uint64 address, const Vec16& v) {
  asm volatile("st.global.L1::no_allocate.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(address),
               "r"(v.word[0]), "r"(v.word[1]), "r"(v.word[2]), "r"(v.word[3])
               : "memory");
}

// Eight bytes; the other words stay.
STRETTO_DEVICE void load_pair(uint64 address, Vec16& v) {
  asm volatile("ld.global.L1::no_allocate.v2.u32 {%0, %1}, [%2];"
               : "=r"(v.word[0]), "=r"(v.word[1])
               : "l"(address)
               : "memory");
}

// A vector of this block's shared memory.
STRETTO_DEVICE Vec16 load_shared_vector(uint32 address) {
  Vec16 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
               : "r"(address)
               : "memory");
  return v;
}

// Stores through the SM's cache.
STRETTO_DEVICE void store_vector(uint64 address, float a, float b, float c, float d) {
  asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(address), "f"(a), "f"(b), "f"(c),
               "f"(d)
               : "memory");
}
STRETTO_DEVICE void store_pair(uint64 address, float a, float b) {
  asm volatile("st.global.v2.f32 [%0], {%1, %2};" ::"l"(address), "f"(a), "f"(b) : "memory");
}

// Brings a line into the SM's cache.
STRETTO_DEVICE void prefetch_line(const void* address) {
  asm volatile("prefetch.global.L1 [%0];" ::"l"(address) : "memory");
}

// Cycles of this SM's clock; it begins again at 0.
STRETTO_DEVICE uint32 cycles_now() {
  uint32 cycles;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(cycles)::"memory");
  return cycles;
}

// Nanoseconds of a clock that all SMs share; it ticks every 32 ns on Hopper, more rarely
// before.
STRETTO_DEVICE uint64 global_time_ns() {
  uint64 value;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(value)::"memory");
  return value;
}

STRETTO_DEVICE void sleep_ns(uint32 duration_ns) {
  asm volatile("nanosleep.u32 %0;" ::"r"(duration_ns));
}

STRETTO_DEVICE uint32 shared_address(const void* pointer) {
  return static_cast<uint32>(__cvta_generic_to_shared(pointer));
}

}  // namespace stretto::device
