// The GEMM kernel against a reference in double precision, on a GPU.
#include <gtest/gtest.h>

#include <cstring>

#include "gpu/gemm_kernel.h"
#include "gpu/gpu_fixture.h"
#include "tables/gemm_table.h"

namespace stretto::cuda {
namespace {

using device::GemmConfig;
using device::OutputType;
using device::Shared;

constexpr uint8_t kPoison = 0xff;

struct Case {
  int64_t m, n, k;
  int blocks;
};

// Edges in every direction, one tile, many tiles a block, K shorter than the pipeline.
constexpr Case kCases[] = {{1, 8, 8, 2},         {100, 72, 40, 132},     {129, 264, 72, 4},
                           {300, 520, 200, 6},   {640, 1032, 328, 132},  {1000, 1000, 1000, 10},
                           {384, 768, 512, 132}, {2048, 1280, 1024, 132}};

class GemmGpuTest : public GpuTest {
 protected:
  // Runs one product into a matrix with a margin on the right and below; returns all of its bytes.
  std::string run(const GemmConfig& config, const Case& shape, device::Fill fill,
                  device::Comparison* comparison) {
    const auto [m, n, k, blocks] = shape;
    const DType in = config.bf16 ? DType::bf16 : DType::fp16;
    const DType out = config.output == OutputType::fp32   ? DType::fp32
                      : config.output == OutputType::bf16 ? DType::bf16
                                                          : DType::fp16;
    const size_t size = static_cast<size_t>(num_bytes(out));
    const int64_t stride = n + 24, rows = m + 3;
    DeviceMemory a(static_cast<size_t>(m * k * 2)), b(static_cast<size_t>(n * k * 2));
    DeviceMemory wide(static_cast<size_t>(rows * stride) * size);
    DeviceMemory dense(static_cast<size_t>(m * n) * size);
    DeviceMemory reference(static_cast<size_t>(m * n) * 4);
    data_->fill(*stream_, a.address(), m * k, in, fill, 1);
    data_->fill(*stream_, b.address(), n * k, in, fill, 2);
    data_->multiply(*stream_, a.address(), b.address(), reference.address(), m, n, k, in);
    check(driver().fill_bytes(wide.address(), kPoison, wide.num_bytes(), stream_->handle()),
          "poison");

    const DeviceGemmTable table(dense_table({a.address(), m, k, k, in}, {b.address(), n, k, k, in},
                                            {wide.address(), m, n, stride, out}, config, blocks,
                                            2));
    GemmKernel(*device_, compiler_, config).launch(*stream_, table.num_blocks(), table.params());
    stream_->synchronize();

    std::string bytes(wide.num_bytes(), '\0'), inside(dense.num_bytes(), '\0');
    wide.download(bytes.data(), bytes.size());
    size_t margin_changed = 0;
    const size_t row_bytes = static_cast<size_t>(n) * size;
    const size_t stride_bytes = static_cast<size_t>(stride) * size;
    for (size_t row = 0; row < static_cast<size_t>(rows); ++row) {
      const bool is_inside = row < static_cast<size_t>(m);
      if (is_inside) {
        std::memcpy(inside.data() + row * row_bytes, bytes.data() + row * stride_bytes, row_bytes);
      }
      for (size_t i = is_inside ? row_bytes : 0; i < stride_bytes; ++i) {
        margin_changed += static_cast<uint8_t>(bytes[row * stride_bytes + i]) != kPoison;
      }
    }
    EXPECT_EQ(margin_changed, 0u) << "bytes written outside of C";
    dense.upload(inside.data(), inside.size());
    *comparison = data_->compare(*stream_, dense.address(), out, reference.address(), m * n);
    return bytes;
  }

  void expect_right(const GemmConfig& config) {
    for (const Case& shape : kCases) {
      SCOPED_TRACE(describe(config) + " at " + std::to_string(shape.m) + " x " +
                   std::to_string(shape.n) + " x " + std::to_string(shape.k));
      if (shape.blocks < device::layout_of(config).cluster) continue;
      device::Comparison comparison{};
      run(config, shape, device::Fill::integers, &comparison);
      EXPECT_EQ(comparison.not_finite, 0u);
      EXPECT_EQ(comparison.differing, 0u) << "integers must be exact";
      const std::string once = run(config, shape, device::Fill::normal, &comparison);
      const double bound = config.output == OutputType::fp32   ? 1e-5
                           : config.output == OutputType::bf16 ? 4e-3
                                                               : 5e-4;
      EXPECT_LT(relative_error(comparison), bound);
      EXPECT_EQ(run(config, shape, device::Fill::normal, &comparison), once)
          << "the same inputs must give the same bits";
    }
  }
};

TEST_F(GemmGpuTest, EveryTileShape) {
  const struct {
    int m, n, stages, consumers;
  } shapes[] = {{128, 256, 4, 2}, {128, 224, 4, 2}, {128, 192, 4, 2}, {128, 160, 5, 2},
                {128, 128, 6, 2}, {128, 96, 6, 2},  {128, 64, 6, 2},  {256, 128, 4, 2},
                {64, 256, 5, 1},  {128, 128, 4, 1}};
  for (const auto& [m, n, stages, consumers] : shapes) {
    for (const Shared shared : {Shared::none, Shared::a, Shared::b}) {
      expect_right({m, n, stages, consumers, shared, true, OutputType::bf16, true});
    }
  }
}

TEST_F(GemmGpuTest, EveryTypeAndBothEpilogues) {
  for (const bool bf16 : {true, false}) {
    for (const OutputType output : {OutputType::bf16, OutputType::fp16, OutputType::fp32}) {
      for (const bool overlap : {true, false}) {
        for (const int n : {256, 160}) {
          expect_right({128, n, 4, 2, Shared::b, bf16, output, overlap});
        }
      }
    }
  }
}

// As maps of a plan do that is made after another has ended, in the memory that it had.
TEST_F(GemmGpuTest, MapsThatCameInPlaceOfOthersAreUsed) {
  const GemmConfig config{128, 128, 6, 2, Shared::none, true, OutputType::bf16, true};
  constexpr int64_t kSize = 512;
  const auto num_bytes = static_cast<size_t>(kSize * kSize * 2);
  DeviceMemory a(num_bytes), b(num_bytes), reference(num_bytes * 2);
  const DeviceMemory c[2] = {DeviceMemory(num_bytes), DeviceMemory(num_bytes)};
  data_->fill(*stream_, a.address(), kSize * kSize, DType::bf16, device::Fill::integers, 1);
  data_->fill(*stream_, b.address(), kSize * kSize, DType::bf16, device::Fill::integers, 2);
  data_->multiply(*stream_, a.address(), b.address(), reference.address(), kSize, kSize, kSize,
                  DType::bf16);
  std::vector<GemmTable> tables;
  for (const DeviceMemory& to : c) {
    tables.push_back(dense_table({a.address(), kSize, kSize, kSize},
                                 {b.address(), kSize, kSize, kSize},
                                 {to.address(), kSize, kSize, kSize}, config, 132, 2));
  }
  const GemmKernel kernel(*device_, compiler_, config);
  for (size_t i = 0; i < 40; ++i) {
    for (const DeviceMemory& to : c) {
      check(driver().fill_bytes(to.address(), kPoison, num_bytes, stream_->handle()), "poison");
    }
    stream_->synchronize();
    const DeviceGemmTable table(tables[i % 2]);  // where the one before was
    kernel.launch(*stream_, table.num_blocks(), table.params());
    kernel.launch(*stream_, table.num_blocks(), table.params());
    const auto made = data_->compare(*stream_, c[i % 2].address(), DType::bf16, reference.address(),
                                     kSize * kSize);
    ASSERT_EQ(made.differing, 0u) << "launch " << i;
    std::string other(num_bytes, '\0');
    c[1 - i % 2].download(other.data(), num_bytes);
    ASSERT_EQ(other, std::string(num_bytes, static_cast<char>(kPoison))) << "launch " << i;
  }
}

}  // namespace
}  // namespace stretto::cuda
