// What arguments of all kernels have in common: memory and counts. Each throws UsageError with one
// line that names the kernel.
#pragma once

#include <cstdint>
#include <vector>

namespace stretto::cuda {

struct Memory {
  const char* name;
  const void* at;
  uint64_t num_bytes;
  // May be the same memory as another with the same mark, but not overlap it otherwise.
  int in_place = 0;
  uint64_t alignment = 16;
  bool symmetric = false;  // peers reach it, so it lies in the rank's symmetric heap
};
inline Memory symmetric(Memory memory) {
  memory.symmetric = true;
  return memory;
}

// Of the rank that calls.
struct Heap {
  const void* at;
  uint64_t num_bytes;
};

// None is missing, misaligned, or overlaps another, and what is symmetric lies in the heap.
void check_memory(const char* kernel, const std::vector<Memory>& all, const Heap& heap);

constexpr uint64_t kMost = (1u << 31) - 1;  // rows or tokens, and vectors of one

void check_most(const char* kernel, const char* what, uint64_t number, uint64_t row_vectors);

}  // namespace stretto::cuda
