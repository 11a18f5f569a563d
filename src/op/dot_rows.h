// Dot products of rows in fp64, from packed panels: the arithmetic of the reference.
#pragma once

#include <cstdint>

namespace stretto {

inline constexpr int kPanelRows = 4;  // of A
inline constexpr int kPanelCols = 8;  // rows of B

// sums[i * stride + j] += sum over t < k of a[t * kPanelRows + i] * b[t * kPanelCols + j], the
// terms in ascending t.
void add_dots(int64_t k, const double* a, const double* b, double* sums, int64_t stride);

}  // namespace stretto
