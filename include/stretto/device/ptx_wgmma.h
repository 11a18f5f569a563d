// wgmma (sm_90a): D[64, kN] (+)= A[64, 16] * B[kN, 16]^T by one warpgroup, operands in shared
// memory, accumulators in registers.
//
// Thread t of the warpgroup holds of D, for column group j = 0 .. kN/8-1, d[4j], d[4j+1] in row
// 16 * (t / 32) + (t % 32) / 4 and d[4j+2], d[4j+3] eight rows below, columns 8j + 2 * (t % 4) +
// 0, 1.
#pragma once

#include "stretto/device/types.h"

namespace stretto::device {

STRETTO_DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
STRETTO_DEVICE void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int kPending>
STRETTO_DEVICE void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// Descriptor of a K-major operand whose rows are 128 bytes, swizzled by 128 bytes, at a 1024-byte
// aligned shared address. Sixteen 2-byte elements further along K: add kDescriptorStepK.
inline constexpr uint64 kDescriptorStepK = 32 >> 4;
STRETTO_DEVICE uint64 wgmma_descriptor(uint32 shared) {
  constexpr uint64 kSwizzle128 = 1ull << 62;
  constexpr uint64 kEightRows = (1024ull >> 4) << 32;
  constexpr uint64 kUnusedWhenSwizzled = 1ull << 16;
  return kSwizzle128 | kEightRows | kUnusedWhenSwizzled | ((shared & 0x3ffff) >> 4);
}

// The asm operand lists: register numbers as text, eight at a time, and the accumulators.
#define STRETTO_R1 "%0,%1,%2,%3,%4,%5,%6,%7"
#define STRETTO_R2 STRETTO_R1 ",%8,%9,%10,%11,%12,%13,%14,%15"
#define STRETTO_R3 STRETTO_R2 ",%16,%17,%18,%19,%20,%21,%22,%23"
#define STRETTO_R4 STRETTO_R3 ",%24,%25,%26,%27,%28,%29,%30,%31"
#define STRETTO_R5 STRETTO_R4 ",%32,%33,%34,%35,%36,%37,%38,%39"
#define STRETTO_R6 STRETTO_R5 ",%40,%41,%42,%43,%44,%45,%46,%47"
#define STRETTO_R7 STRETTO_R6 ",%48,%49,%50,%51,%52,%53,%54,%55"
#define STRETTO_R8 STRETTO_R7 ",%56,%57,%58,%59,%60,%61,%62,%63"
#define STRETTO_R9 STRETTO_R8 ",%64,%65,%66,%67,%68,%69,%70,%71"
#define STRETTO_R10 STRETTO_R9 ",%72,%73,%74,%75,%76,%77,%78,%79"
#define STRETTO_R11 STRETTO_R10 ",%80,%81,%82,%83,%84,%85,%86,%87"
#define STRETTO_R12 STRETTO_R11 ",%88,%89,%90,%91,%92,%93,%94,%95"
#define STRETTO_R13 STRETTO_R12 ",%96,%97,%98,%99,%100,%101,%102,%103"
#define STRETTO_R14 STRETTO_R13 ",%104,%105,%106,%107,%108,%109,%110,%111"
#define STRETTO_R15 STRETTO_R14 ",%112,%113,%114,%115,%116,%117,%118,%119"
#define STRETTO_R16 STRETTO_R15 ",%120,%121,%122,%123,%124,%125,%126,%127"
#define STRETTO_D(i)                                                                          \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define STRETTO_D1 STRETTO_D(0)
#define STRETTO_D2 STRETTO_D1, STRETTO_D(8)
#define STRETTO_D3 STRETTO_D2, STRETTO_D(16)
#define STRETTO_D4 STRETTO_D3, STRETTO_D(24)
#define STRETTO_D5 STRETTO_D4, STRETTO_D(32)
#define STRETTO_D6 STRETTO_D5, STRETTO_D(40)
#define STRETTO_D7 STRETTO_D6, STRETTO_D(48)
#define STRETTO_D8 STRETTO_D7, STRETTO_D(56)
#define STRETTO_D9 STRETTO_D8, STRETTO_D(64)
#define STRETTO_D10 STRETTO_D9, STRETTO_D(72)
#define STRETTO_D11 STRETTO_D10, STRETTO_D(80)
#define STRETTO_D12 STRETTO_D11, STRETTO_D(88)
#define STRETTO_D13 STRETTO_D12, STRETTO_D(96)
#define STRETTO_D14 STRETTO_D13, STRETTO_D(104)
#define STRETTO_D15 STRETTO_D14, STRETTO_D(112)
#define STRETTO_D16 STRETTO_D15, STRETTO_D(120)

// `accumulate` = 0 overwrites D.
template <int kN, bool kBf16>
struct Wgmma;

// X(columns, eighths of the accumulators, number of the first operand after them, and two more)
#define STRETTO_WGMMA_SHAPES(X) \
  X(16, 1, 8, 9, 10)            \
  X(32, 2, 16, 17, 18)          \
  X(48, 3, 24, 25, 26)          \
  X(64, 4, 32, 33, 34)          \
  X(80, 5, 40, 41, 42)          \
  X(96, 6, 48, 49, 50)          \
  X(112, 7, 56, 57, 58)         \
  X(128, 8, 64, 65, 66)         \
  X(144, 9, 72, 73, 74)         \
  X(160, 10, 80, 81, 82)        \
  X(176, 11, 88, 89, 90)        \
  X(192, 12, 96, 97, 98)        \
  X(208, 13, 104, 105, 106)     \
  X(224, 14, 112, 113, 114)     \
  X(240, 15, 120, 121, 122)     \
  X(256, 16, 128, 129, 130)

#define STRETTO_WGMMA(n, r, a, b, c, bf16, type)                                    \
  template <>                                                                       \
  struct Wgmma<n, bf16> {                                                           \
    STRETTO_DEVICE static void run(float (&d)[n / 2], uint64 a_desc, uint64 b_desc, \
                                   int32 accumulate) {                              \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #c                          \
                   ", 0;\n"                                                         \
                   "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type  \
                   " {" STRETTO_R##r "}, %" #a ", %" #b ", p, 1, 1, 0, 0;\n}"       \
                   : STRETTO_D##r                                                   \
                   : "l"(a_desc), "l"(b_desc), "r"(accumulate));                    \
    }                                                                               \
  };
#define STRETTO_WGMMA_BOTH(n, r, a, b, c)    \
  STRETTO_WGMMA(n, r, a, b, c, true, "bf16") \
  STRETTO_WGMMA(n, r, a, b, c, false, "f16")
STRETTO_WGMMA_SHAPES(STRETTO_WGMMA_BOTH)

#undef STRETTO_R1
#undef STRETTO_D1
#undef STRETTO_R2
#undef STRETTO_D2
#undef STRETTO_R3
#undef STRETTO_D3
#undef STRETTO_R4
#undef STRETTO_D4
#undef STRETTO_R5
#undef STRETTO_D5
#undef STRETTO_R6
#undef STRETTO_D6
#undef STRETTO_R7
#undef STRETTO_D7
#undef STRETTO_R8
#undef STRETTO_D8
#undef STRETTO_R9
#undef STRETTO_D9
#undef STRETTO_R10
#undef STRETTO_D10
#undef STRETTO_R11
#undef STRETTO_D11
#undef STRETTO_R12
#undef STRETTO_D12
#undef STRETTO_R13
#undef STRETTO_D13
#undef STRETTO_R14
#undef STRETTO_D14
#undef STRETTO_R15
#undef STRETTO_D15
#undef STRETTO_R16
#undef STRETTO_D16
#undef STRETTO_D
#undef STRETTO_WGMMA
#undef STRETTO_WGMMA_BOTH
#undef STRETTO_WGMMA_SHAPES

}  // namespace stretto::device
