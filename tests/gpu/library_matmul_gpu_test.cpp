// Products by cuBLAS of changing row counts, with every algorithm that it proposes, on a GPU.
#include <gtest/gtest.h>

#include "gpu/cublas.h"
#include "gpu/graph.h"
#include "gpu/library_matmul.h"
#include "gpu_fixture.h"
#include "stretto/error.h"
#include "stretto/schedule.h"

namespace stretto::cuda {
namespace {

constexpr int64_t kRows = 200, kColumns = 264, kDepth = 1544;
constexpr size_t kOffset = 16;  // tensors begin anywhere that is as even as this

class LibraryMatmulGpuTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    if (!why_no_cublas().empty()) STRETTO_SKIP(why_no_cublas());
    library_ = std::make_unique<MatmulLibrary>();
    a_ = DeviceMemory(kRows * kDepth * 2 + kOffset);
    b_ = DeviceMemory(kColumns * kDepth * 2 + kOffset);
    c_ = DeviceMemory(kRows * kColumns * 4 + kOffset);
    reference_ = DeviceMemory(kRows * kColumns * 4);
    places_ = {a_.address() + kOffset, b_.address() + kOffset, c_.address() + kOffset};
  }

  void fill(DType dtype) {
    data_->fill(*stream_, places_.a, kRows * kDepth, dtype, device::Fill::integers, 1);
    data_->fill(*stream_, places_.b, kColumns * kDepth, dtype, device::Fill::integers, 2);
    data_->multiply(*stream_, places_.a, places_.b, reference_.address(), kRows, kColumns, kDepth,
                    dtype);
  }

  LibraryMatmul make(DType in, DType out, std::span<const int64_t> steps, int algorithm) const {
    return make(*library_, in, out, steps, algorithm);
  }
  LibraryMatmul make(const MatmulLibrary& library, DType in, DType out,
                     std::span<const int64_t> steps, int algorithm) const {
    return {library,
            {places_.a, kRows, kDepth, kDepth, in},
            {places_.b, kColumns, kDepth, kDepth, in},
            {places_.c, kRows, kColumns, kColumns, out},
            steps,
            algorithm};
  }

  // `enqueue` writes `rows` rows: these are the reference's, and no other is touched.
  template <typename Enqueue>
  void expect_rows(DType out, int64_t rows, const Enqueue& enqueue) {
    check(driver().fill_bytes(c_.address(), 0xff, c_.num_bytes(), stream_->handle()), "poison");
    enqueue();
    const device::Comparison comparison =
        data_->compare(*stream_, places_.c, out, reference_.address(), rows * kColumns);
    EXPECT_EQ(comparison.differing, 0u) << rows << " rows";
    std::string bytes(c_.num_bytes(), '\0');
    c_.download(bytes.data(), bytes.size());
    const auto end = kOffset + static_cast<size_t>(rows * kColumns * num_bytes(out));
    EXPECT_EQ(bytes.find_first_not_of('\xff'), kOffset) << rows << " rows";
    EXPECT_EQ(bytes.find_first_not_of('\xff', end), std::string::npos) << rows << " rows";
  }

  std::unique_ptr<MatmulLibrary> library_;
  DeviceMemory a_, b_, c_, reference_;
  LibraryMatmul::Places places_;
};

TEST_F(LibraryMatmulGpuTest, FewerRowsAreExactAndTheOthersUntouched) {
  const int64_t steps[] = {16, 64, kRows};
  for (const DType in : {DType::bf16, DType::fp16}) {
    for (const DType out : {in, DType::fp32}) {
      fill(in);
      LibraryMatmul matmul = make(in, out, steps, 0);
      const DeviceMemory workspace(matmul.workspace_bytes());
      for (const int64_t rows : {1, 3, 16, 17, 63, 64, 65, 129, 199, 200, 5}) {
        expect_rows(out, rows, [&] { matmul.enqueue(*stream_, places_, rows, workspace); });
      }
      for (size_t step = 0; step < matmul.num_steps(); ++step) {
        expect_rows(out, 8, [&] { matmul.enqueue_step(*stream_, places_, 8, step, workspace); });
      }
    }
  }
}

TEST_F(LibraryMatmulGpuTest, EveryProposedAlgorithmIsExactForAllRowCounts) {
  fill(DType::bf16);
  const int64_t steps[] = {kRows};
  const int proposed = make(DType::bf16, DType::bf16, steps, 1).num_proposed();
  EXPECT_GT(proposed, 1);
  for (int algorithm = 0; algorithm < proposed; ++algorithm) {
    SCOPED_TRACE(algorithm);
    LibraryMatmul matmul = make(DType::bf16, DType::bf16, steps, algorithm);
    EXPECT_EQ(matmul.num_proposed(), algorithm == 0 ? kMostAlgorithms : proposed);
    const DeviceMemory workspace(matmul.workspace_bytes());
    for (const int64_t rows : {int64_t{1}, int64_t{8}, int64_t{77}, kRows}) {
      expect_rows(DType::bf16, rows, [&] { matmul.enqueue(*stream_, places_, rows, workspace); });
    }
  }
}

TEST_F(LibraryMatmulGpuTest, WhatIsNotProposedIsTheFirst) {
  fill(DType::bf16);
  const int64_t steps[] = {kRows};
  const MatmulLibrary few(2);
  LibraryMatmul matmul = make(few, DType::bf16, DType::bf16, steps, 2);
  EXPECT_EQ(matmul.num_proposed(), 2);
  const DeviceMemory workspace(matmul.workspace_bytes());
  expect_rows(DType::bf16, kRows, [&] { matmul.enqueue(*stream_, places_, kRows, workspace); });
}

// In a graph it is what it is outside; and a capture that fails leaves its stream as it was.
TEST_F(LibraryMatmulGpuTest, GraphsHoldIt) {
  fill(DType::bf16);
  const int64_t steps[] = {16, kRows};
  LibraryMatmul matmul = make(DType::bf16, DType::bf16, steps, 0);
  const DeviceMemory workspace(matmul.workspace_bytes());
  for (size_t step = 0; step < matmul.num_steps(); ++step) {
    matmul.enqueue_step(*stream_, places_, 8, step, workspace);
  }
  stream_->synchronize();
  const auto begun_in_vain = [&] {
    const Graph graph(*stream_, [&] {
      matmul.enqueue(*stream_, places_, 3, workspace);
      throw SystemError("something else");
    });
  };
  EXPECT_THROW(begun_in_vain(), SystemError);
  for (const int64_t rows : {int64_t{9}, kRows}) {
    const Graph graph(*stream_, [&] { matmul.enqueue(*stream_, places_, rows, workspace); });
    expect_rows(DType::bf16, rows, [&] { graph.launch(*stream_); });
  }
}

}  // namespace
}  // namespace stretto::cuda
