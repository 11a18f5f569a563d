#include "op/dot_rows.h"

#include <cstring>

namespace stretto {
namespace {

// Columns are the vector's lanes, so every width adds the same terms in the same order.
typedef double Vector __attribute__((vector_size(32)));
constexpr int kLanes = 4;
static_assert(kPanelRows == 4 && kPanelCols == 2 * kLanes, "the sums below are spelled out");

[[gnu::always_inline]] inline void load(Vector& vector, const double* from) {
  std::memcpy(&vector, from, sizeof vector);
}

[[gnu::always_inline]] inline void add_to(double* sums, const Vector& left, const Vector& right) {
  Vector old_left, old_right;
  load(old_left, sums);
  load(old_right, sums + kLanes);
  old_left += left;
  old_right += right;
  std::memcpy(sums, &old_left, sizeof old_left);
  std::memcpy(sums + kLanes, &old_right, sizeof old_right);
}

// Eight named sums rather than an array: an array lands in memory where loops are not unrolled.
[[gnu::always_inline]] inline void add_dots_body(int64_t k, const double* a, const double* b,
                                                 double* sums, int64_t stride) {
  Vector s00{}, s01{}, s10{}, s11{}, s20{}, s21{}, s30{}, s31{};
  for (int64_t t = 0; t < k; ++t) {
    Vector b0, b1;
    load(b0, b + t * kPanelCols);
    load(b1, b + t * kPanelCols + kLanes);
    const double* rows = a + t * kPanelRows;
    s00 += rows[0] * b0;
    s01 += rows[0] * b1;
    s10 += rows[1] * b0;
    s11 += rows[1] * b1;
    s20 += rows[2] * b0;
    s21 += rows[2] * b1;
    s30 += rows[3] * b0;
    s31 += rows[3] * b1;
  }
  add_to(sums, s00, s01);
  add_to(sums + stride, s10, s11);
  add_to(sums + 2 * stride, s20, s21);
  add_to(sums + 3 * stride, s30, s31);
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
