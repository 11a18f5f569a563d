// Random numbers of the scheduler: the same on every platform for a seed.
#pragma once

#include <cstdint>

namespace stretto::emu {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  // Uniform enough for scheduling; limit > 0.
  uint64_t below(uint64_t limit) { return next() % limit; }
  bool chance(uint32_t percent) { return below(100) < percent; }

 private:
  uint64_t state_;
};

}  // namespace stretto::emu
