// The hash behind all inputs, and the integer inputs; stretto/reference.h says what they promise.
#pragma once

#include <algorithm>
#include <cstdint>

#include "stretto/reference.h"

namespace stretto {

inline uint64_t mix_bits(uint64_t x) {  // a bijection that spreads every bit (SplitMix64's)
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

inline uint64_t hash_row(uint64_t seed, Input input, int64_t row) {
  const uint64_t tensor = mix_bits(seed * 2 + static_cast<uint64_t>(input) + 0x9e3779b97f4a7c15u);
  return mix_bits(tensor + static_cast<uint64_t>(row) * 0x9e3779b97f4a7c15u);
}

inline uint64_t hash_element(uint64_t row_key, int64_t col) {
  return mix_bits(row_key + static_cast<uint64_t>(col) * 0x9e3779b97f4a7c15u);
}

inline int integer_of_b(uint64_t row_key, int64_t col) {
  return static_cast<int>(((hash_element(row_key, col) >> 32) * 9) >> 32) - 4;
}

inline int num_nonzeros(int64_t k) { return static_cast<int>(std::min<int64_t>(k, 32)); }

struct Nonzero {
  int64_t col = 0;
  int value = 0;
};

// Nonzero i of a row lies in the i-th of so many even pieces of its columns.
inline Nonzero nonzero_of(uint64_t row_key, int64_t k, int64_t pieces, int i) {
  const int64_t first = k * i / pieces;
  const int64_t length = k * (i + 1) / pieces - first;
  const uint64_t hash = hash_element(row_key, i);
  const int64_t offset = static_cast<int64_t>((hash >> 8) % static_cast<uint64_t>(length));
  const int magnitude = 1 + static_cast<int>(hash & 1);
  return {first + offset, (hash & 2) != 0 ? -magnitude : magnitude};
}

inline Nonzero nonzero_of_a(uint64_t row_key, int64_t k, int i) {
  return nonzero_of(row_key, k, num_nonzeros(k), i);
}

}  // namespace stretto
