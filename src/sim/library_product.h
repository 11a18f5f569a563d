// What cuBLAS takes for a product, alone on so many SMs.
#pragma once

#include <compare>
#include <cstdint>

#include "stretto/machine.h"

namespace stretto::sim {

struct Reread;  // calibration.h

// C[rows, columns] = A[rows, k] * B[columns, k]^T, of 16-bit elements.
struct LibraryProduct {
  int64_t rows = 0, columns = 0, k = 0;
  auto operator<=>(const LibraryProduct&) const = default;
};

// With its start, where power leaves this share of the rate. It takes the tiles, and ranges of K,
// that are fastest by this very model: cuBLAS's own choice is nearly as good.
double library_us(const LibraryProduct& product, double sms, double power, const Machine& machine);

// To read what the run before has read, too.
double reread_us(double bytes, const Reread& rates, const Machine& machine);

}  // namespace stretto::sim
