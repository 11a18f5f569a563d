// Which tiles the kernel of few rows takes where its time is that of multiplying, and how long they
// take it: the kernel chooses by this, and the simulation reckons with it.
#pragma once

#include <cstdint>

namespace stretto {

// Up to so many rows the time of a product is that of reading its weights.
inline constexpr int64_t kRowsThatStream = 128;

// Cycles that a round of tiles has besides its blocks of K: its kernel's start, and what is stored.
inline constexpr double kFewRowsRoundCycles = 3700;

struct FewRowsTile {
  int columns = 64;   // of weights
  int rows = 64;      // of tokens
  int sharing = 1;    // blocks along rows, and along columns, that share what they load
  int splits = 1;     // ranges of K, where no blocks share
  int rounds = 1;     // of tiles
  double cycles = 0;  // of the product, all in all
};

// Of a product of more rows than kRowsThatStream.
FewRowsTile few_rows_tile(int64_t rows, int64_t columns, int64_t k, int sms);

}  // namespace stretto
