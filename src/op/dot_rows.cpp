#include "op/dot_rows.h"

#include <cstring>

namespace stretto {
namespace {

// Columns are the vector's lanes, so every width adds the same terms in the same order.
typedef double Vector __attribute__((vector_size(32)));
constexpr int kLanes = 4;
constexpr int kVectors = kPanelCols / kLanes;

[[gnu::always_inline]] inline void add_dots_body(int64_t k, const double* a, const double* b,
                                                 double* sums, int64_t stride) {
  Vector acc[kPanelRows][kVectors] = {};
  for (int64_t t = 0; t < k; ++t) {
    Vector cols[kVectors];
    std::memcpy(cols, b + t * kPanelCols, sizeof cols);
    for (int i = 0; i < kPanelRows; ++i) {
      const double value = a[t * kPanelRows + i];
      for (int v = 0; v < kVectors; ++v) acc[i][v] += value * cols[v];
    }
  }
  for (int i = 0; i < kPanelRows; ++i) {
    for (int j = 0; j < kPanelCols; ++j) sums[i * stride + j] += acc[i][j / kLanes][j % kLanes];
  }
}

#if defined(__x86_64__)
[[gnu::target("avx2")]] void add_dots_avx2(int64_t k, const double* a, const double* b,
                                           double* sums, int64_t stride) {
  add_dots_body(k, a, b, sums, stride);
}
#endif

void add_dots_plain(int64_t k, const double* a, const double* b, double* sums, int64_t stride) {
  add_dots_body(k, a, b, sums, stride);
}

}  // namespace

void add_dots(int64_t k, const double* a, const double* b, double* sums, int64_t stride) {
#if defined(__x86_64__)
  static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
  if (has_avx2) return add_dots_avx2(k, a, b, sums, stride);
#endif
  add_dots_plain(k, a, b, sums, stride);
}

}  // namespace stretto
