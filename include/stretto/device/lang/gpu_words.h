// Strong accesses to 4- and 8-byte words and to 16-byte vectors at each scope (sm_70 and newer), in
// global or shared memory.
#pragma once

#include "stretto/device/lang/words.h"
#include "stretto/device/ptx_memory.h"

// The instruction "OP.SCOPErest" with these operands; a scope is part of an instruction's name.
#define STRETTO_ASM_AT(scope, op, rest, ...)    \
  do {                                          \
    if ((scope) == Scope::kBlock) {             \
      asm volatile(op ".cta" rest __VA_ARGS__); \
    } else if ((scope) == Scope::kGpu) {        \
      asm volatile(op ".gpu" rest __VA_ARGS__); \
    } else {                                    \
      asm volatile(op ".sys" rest __VA_ARGS__); \
    }                                           \
  } while (false)

namespace stretto::device {

STRETTO_DEVICE void fence_acq_rel(Scope scope) {
  STRETTO_ASM_AT(scope, "fence.acq_rel", ";", ::: "memory");
}

STRETTO_DEVICE uint32 load_strong(const uint32* at, Scope scope) {
  uint32 v;
  STRETTO_ASM_AT(scope, "ld.relaxed", ".u32 %0, [%1];", : "=r"(v) : "l"(at) : "memory");
  return v;
}

STRETTO_DEVICE uint64 load_strong(const uint64* at, Scope scope) {
  uint64 v;
  STRETTO_ASM_AT(scope, "ld.relaxed", ".u64 %0, [%1];", : "=l"(v) : "l"(at) : "memory");
  return v;
}

// Each word is strong on its own; the four are not one unit.
STRETTO_DEVICE Vec16 load_strong(const Vec16* at, Scope) {
  Vec16 v;
  asm volatile("ld.relaxed.sys.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
               : "l"(at)
               : "memory");
  return v;
}

// Acquires what released the value that is read, and nothing that the thread has seen elsewhere: a
// part of a fence's price, and the less of it the more accesses of its SM are under way.
STRETTO_DEVICE uint32 load_acquire(const uint32* at, Scope scope) {
  uint32 v;
  STRETTO_ASM_AT(scope, "ld.acquire", ".u32 %0, [%1];", : "=r"(v) : "l"(at) : "memory");
  return v;
}

STRETTO_DEVICE uint64 load_acquire(const uint64* at, Scope scope) {
  uint64 v;
  STRETTO_ASM_AT(scope, "ld.acquire", ".u64 %0, [%1];", : "=l"(v) : "l"(at) : "memory");
  return v;
}

STRETTO_DEVICE Vec16 load_acquire(const Vec16* at, Scope scope) {
  const Vec16 v = load_strong(at, scope);
  fence_acq_rel(scope);
  return v;
}

STRETTO_DEVICE void store_strong(uint32* at, uint32 v, Scope scope) {
  STRETTO_ASM_AT(scope, "st.relaxed", ".u32 [%0], %1;", ::"l"(at), "r"(v) : "memory");
}

STRETTO_DEVICE void store_strong(uint64* at, uint64 v, Scope scope) {
  STRETTO_ASM_AT(scope, "st.relaxed", ".u64 [%0], %1;", ::"l"(at), "l"(v) : "memory");
}

STRETTO_DEVICE void store_strong(Vec16* at, const Vec16& v, Scope) {
  asm volatile("st.relaxed.sys.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(v.word[0]),
               "r"(v.word[1]), "r"(v.word[2]), "r"(v.word[3])
               : "memory");
}

STRETTO_DEVICE void store_release_sys(uint64* at, uint64 v) {
  asm volatile("st.release.sys.u64 [%0], %1;" ::"l"(at), "l"(v) : "memory");
}

STRETTO_DEVICE uint32 fetch_add_relaxed(uint32* at, uint32 v, Scope scope) {
  uint32 old;
  STRETTO_ASM_AT(scope, "atom.relaxed", ".add.u32 %0, [%1], %2;",
                 : "=r"(old)
                 : "l"(at), "r"(v)
                 : "memory");
  return old;
}
STRETTO_DEVICE uint64 fetch_add_relaxed(uint64* at, uint64 v, Scope scope) {
  uint64 old;
  STRETTO_ASM_AT(scope, "atom.relaxed", ".add.u64 %0, [%1], %2;",
                 : "=l"(old)
                 : "l"(at), "l"(v)
                 : "memory");
  return old;
}
STRETTO_DEVICE uint32 exchange_relaxed(uint32* at, uint32 v) {
  uint32 old;
  asm volatile("atom.relaxed.sys.exch.b32 %0, [%1], %2;" : "=r"(old) : "l"(at), "r"(v) : "memory");
  return old;
}
STRETTO_DEVICE uint64 exchange_relaxed(uint64* at, uint64 v) {
  uint64 old;
  asm volatile("atom.relaxed.sys.exch.b64 %0, [%1], %2;" : "=l"(old) : "l"(at), "l"(v) : "memory");
  return old;
}
STRETTO_DEVICE uint32 compare_swap_relaxed(uint32* at, uint32 expected, uint32 v) {
  uint32 old;
  asm volatile("atom.relaxed.sys.cas.b32 %0, [%1], %2, %3;"
               : "=r"(old)
               : "l"(at), "r"(expected), "r"(v)
               : "memory");
  return old;
}
STRETTO_DEVICE uint64 compare_swap_relaxed(uint64* at, uint64 expected, uint64 v) {
  uint64 old;
  asm volatile("atom.relaxed.sys.cas.b64 %0, [%1], %2, %3;"
               : "=l"(old)
               : "l"(at), "l"(expected), "l"(v)
               : "memory");
  return old;
}

}  // namespace stretto::device

#undef STRETTO_ASM_AT
