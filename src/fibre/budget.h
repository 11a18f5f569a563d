// What the emulation of one world may take: sizes come from whoever asks for a shape, and clocks
// grow with the square of the threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "stretto/error.h"

namespace stretto::fibre {

inline constexpr int64_t kMostThreads = 32768;

class TooMuchMemory : public UsageError {
 public:
  TooMuchMemory() : UsageError("the emulation takes too much memory") {}
};

// Of the worlds that an OS thread runs: a world stays on one, its fibres included.
struct Budget {
  int64_t used_bytes = 0;
  int64_t most_bytes = int64_t{4} << 30;
};

inline Budget& budget() {
  thread_local Budget budget;
  return budget;
}

// Counts what clocks and the detector's memory take, and throws before it would be too much.
template <class T>
struct Counted {
  using value_type = T;

  Counted() = default;
  template <class U>
  Counted(const Counted<U>&) {}

  T* allocate(size_t count) {
    Budget& all = budget();
    if (count > static_cast<size_t>(all.most_bytes) / sizeof(T)) throw TooMuchMemory();
    const auto num_bytes = static_cast<int64_t>(count * sizeof(T));
    if (num_bytes > all.most_bytes - all.used_bytes) throw TooMuchMemory();
    T* const memory = std::allocator<T>().allocate(count);
    all.used_bytes += num_bytes;
    return memory;
  }
  void deallocate(T* memory, size_t count) {
    budget().used_bytes -= static_cast<int64_t>(count * sizeof(T));
    std::allocator<T>().deallocate(memory, count);
  }
  template <class U>
  bool operator==(const Counted<U>&) const {
    return true;
  }
};

}  // namespace stretto::fibre
