#include "tasks/tile_gemm.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <random>
#include <tuple>
#include <vector>

#include "hwy/targets.h"
#include "tasks/elements.h"

namespace stretto::tasks {
namespace {

struct Matrix {
  int64_t rows, cols, stride;
  DType dtype;
  std::vector<unsigned char> bytes;

  Matrix(int64_t rows_, int64_t cols_, DType dtype_, int64_t gap = 0)
      : rows(rows_),
        cols(cols_),
        stride(cols_ + gap),
        dtype(dtype_),
        bytes(static_cast<size_t>(rows_ * stride * num_bytes(dtype_))) {}
  void* at(int64_t row, int64_t col) {
    return bytes.data() + (row * stride + col) * num_bytes(dtype);
  }
  MatrixView view(int64_t row = 0) { return {at(row, 0), stride, dtype}; }
  MutableMatrixView out(int64_t row = 0, int64_t col = 0) { return {at(row, col), stride, dtype}; }
  // Row-major without gaps.
  std::vector<float> wide() {
    std::vector<float> values(static_cast<size_t>(rows * cols));
    for (int64_t row = 0; row < rows; ++row) {
      widen(dtype, at(row, 0), values.data() + row * cols, static_cast<size_t>(cols));
    }
    return values;
  }
};

template <class Distribution>
Matrix filled(int64_t rows, int64_t cols, DType dtype, uint32_t seed, Distribution values) {
  Matrix matrix(rows, cols, dtype, 3);
  std::mt19937 random(seed);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t col = 0; col < cols; ++col) {
      const auto value = static_cast<float>(values(random));
      round_elements(dtype, &value, matrix.at(row, col), 1);
    }
  }
  return matrix;
}

Matrix normal(int64_t rows, int64_t cols, DType dtype, uint32_t seed) {
  return filled(rows, cols, dtype, seed, std::normal_distribution<float>());
}

using Shape = std::tuple<int, int, int>;
const Shape kShapes[] = {{1, 1, 1},    {1, 256, 64},  {128, 256, 300}, {13, 33, 257},
                         {77, 65, 31}, {250, 530, 9}, {2, 3, 1000},    {12, 64, 512}};

TEST(TileGemm, IntegersAreExact) {
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
    for (const auto& [m, n, k] : kShapes) {
      Matrix a = filled(m, k, dtype, 1, std::uniform_int_distribution<int>(-2, 2));
      Matrix b = filled(n, k, dtype, 2, std::uniform_int_distribution<int>(-3, 3));
      Matrix c(m, n, DType::fp32);
      TileGemm().run(m, n, k, a.view(), b.view(), c.out());
      const std::vector<float> wide_a = a.wide(), wide_b = b.wide(), got = c.wide();
      for (int64_t i = 0; i < m; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          int sum = 0;
          for (int64_t p = 0; p < k; ++p) {
            sum += static_cast<int>(wide_a[i * k + p]) * static_cast<int>(wide_b[j * k + p]);
          }
          ASSERT_EQ(got[i * n + j], static_cast<float>(sum)) << m << "x" << n << "x" << k;
        }
      }
    }
  }
}

// The definition: one chain in k, products exact, one rounding an addition.
TEST(TileGemm, AccumulatesInOrderOfK) {
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    for (const auto& [m, n, k] : kShapes) {
      Matrix a = normal(m, k, dtype, 3), b = normal(n, k, dtype, 4);
      Matrix c(m, n, dtype);
      TileGemm().run(m, n, k, a.view(), b.view(), c.out());
      Matrix expected(m, n, dtype);
      const std::vector<float> wide_a = a.wide(), wide_b = b.wide();
      for (int64_t i = 0; i < m; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          float sum = 0;
          for (int64_t p = 0; p < k; ++p) {
            const float product = wide_a[i * k + p] * wide_b[j * k + p];
            sum += product;
          }
          round_elements(dtype, &sum, expected.at(i, j), 1);
        }
      }
      ASSERT_EQ(c.bytes, expected.bytes) << m << "x" << n << "x" << k;
    }
  }
}

TEST(TileGemm, BitsDoNotDependOnTiling) {
  const int64_t m = 250, n = 530, k = 300;
  for (const DType dtype : {DType::bf16, DType::fp32}) {
    Matrix a = normal(m, k, dtype, 5), b = normal(n, k, dtype, 6);
    Matrix whole(m, n, dtype);
    TileGemm gemm;
    gemm.run(m, n, k, a.view(), b.view(), whole.out());
    for (const auto& [tile_m, tile_n] : {std::pair{128, 256}, {25, 530}, {37, 41}, {250, 8}}) {
      Matrix tiled(m, n, dtype);
      for (int64_t i = 0; i < m; i += tile_m) {
        for (int64_t j = 0; j < n; j += tile_n) {
          gemm.run(std::min<int64_t>(tile_m, m - i), std::min<int64_t>(tile_n, n - j), k, a.view(i),
                   b.view(j), tiled.out(i, j));
        }
      }
      ASSERT_EQ(whole.bytes, tiled.bytes) << tile_m << "x" << tile_n;
    }
  }
}

TEST(TileGemm, WritesItsTileOnly) {
  Matrix a = normal(20, 30, DType::bf16, 7), b = normal(40, 30, DType::bf16, 8);
  Matrix c(24, 48, DType::bf16);
  std::memset(c.bytes.data(), 0x5A, c.bytes.size());
  TileGemm().run(20, 40, 30, a.view(), b.view(), c.out(2, 4));
  for (int64_t i = 0; i < 24; ++i) {
    for (int64_t j = 0; j < 48; ++j) {
      const bool inside = i >= 2 && i < 22 && j >= 4 && j < 44;
      uint16_t bits;
      std::memcpy(&bits, c.at(i, j), sizeof(bits));
      ASSERT_EQ(bits != 0x5A5A, inside) << i << "," << j;
    }
  }
}

TEST(TileGemm, EmptySumIsZero) {
  Matrix a(3, 0, DType::bf16), b(5, 0, DType::bf16), c(3, 5, DType::bf16);
  std::memset(c.bytes.data(), 0x5A, c.bytes.size());
  TileGemm().run(3, 5, 0, a.view(), b.view(), c.out());
  EXPECT_EQ(c.bytes, std::vector<unsigned char>(c.bytes.size(), 0));
}

TEST(TileGemm, BitsDoNotDependOnTheInstructionSet) {
  const int64_t m = 61, n = 130, k = 333;
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    Matrix a = normal(m, k, dtype, 9), b = normal(n, k, dtype, 10);
    Matrix best(m, n, dtype);
    TileGemm().run(m, n, k, a.view(), b.view(), best.out());
    const int64_t supported = hwy::SupportedTargets();
    int tried = 0;
    for (int64_t rest = supported; rest != 0; rest &= rest - 1) {
      const int64_t target = rest & -rest;
      hwy::SetSupportedTargetsForTest(target);
      hwy::GetChosenTarget().Update(hwy::SupportedTargets());
      Matrix other(m, n, dtype);
      TileGemm().run(m, n, k, a.view(), b.view(), other.out());
      EXPECT_EQ(best.bytes, other.bytes) << hwy::TargetName(target);
      ++tried;
    }
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    EXPECT_GE(tried, 1);
  }
}

TEST(TileGemm, IsFastEnoughToUse) {
  Matrix a = normal(128, 1024, DType::bf16, 11), b = normal(256, 1024, DType::bf16, 12);
  Matrix c(128, 256, DType::bf16);
  TileGemm gemm;
  double best = 0;
  for (int i = 0; i < 10; ++i) {
    const auto start = std::chrono::steady_clock::now();
    gemm.run(128, 256, 1024, a.view(), b.view(), c.out());
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    best = std::max(best, 2.0 * 128 * 256 * 1024 / time.count() / 1e9);
  }
  std::printf("bf16 tile 128x256x1024 on %s: %.1f GFLOP/s\n", simd_name(), best);
  EXPECT_GT(best, 0);  // bench/ has the goal; a sanitized or busy machine may be slow
}

}  // namespace
}  // namespace stretto::tasks
