// Which tiles the kernel of few rows takes where its time is that of multiplying, and how long they
// take it: the kernel chooses by this, and the simulation reckons with it.
#pragma once

#include <cstdint>

namespace stretto {

// Up to so many rows the time of a product is that of reading its weights.
inline constexpr int64_t kRowsThatStream = 128;

// Cycles that a round of tiles has besides its blocks of K: its kernel's start, and what is stored.
inline constexpr double kFewRowsRoundCycles = 3700;

// Tiles that a block sends beside its next ones have up to so many rows, for registers.
inline constexpr int kMostRowsBeside = 192;

struct FewRowsTile {
  int columns = 64;           // of weights
  int rows = 64;              // of tokens
  int sharing = 1;            // blocks along rows, and along columns, that share what they load
  int splits = 1;             // ranges of K, where no blocks share
  int rounds = 1;             // of tiles
  bool sends_beside = false;  // blocks have tiles one after the other, and send one beside the next
  double cycles = 0;          // of the product, all in all
  double behind = 1;  // the share of what is sent for which links take time behind the product
};

// Of a product of more rows than kRowsThatStream, which goes to other ranks `sent` times: 1 where
// one other rank takes all of it, a half where it takes a half.
FewRowsTile few_rows_tile(int64_t rows, int64_t columns, int64_t k, double sent, int sms);

// How often terms go to other ranks, to owners of their rows or to all.
double times_sent(int ranks, bool to_owners);

}  // namespace stretto
