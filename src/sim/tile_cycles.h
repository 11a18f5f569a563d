// What 64 of K take of an SM in cycles, on Hopper: of cuBLAS's tiles and of ours.
#pragma once

namespace stretto::sim {

inline constexpr int kStageOfK = 64;          // of 16-bit inputs
inline constexpr double kMacsOfCycle = 2048;  // m64n8k16 takes 4 cycles

// `side` is in MMAs of 64 rows; `width` is what each of them reads of the other operand.
inline double mma_cycles(double side, double width) {
  return side * width * kStageOfK / kMacsOfCycle;
}

// What MMAs read of shared memory and loads write into it, 128 bytes a cycle.
inline double shared_memory_cycles(double side, double width) {
  return 2 * side + side * width / 64 + width;
}

}  // namespace stretto::sim
