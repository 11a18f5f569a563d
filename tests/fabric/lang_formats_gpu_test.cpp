// Kernels of the device language on GPUs in formats that others do not try: fp16 sums of both
// all-reduces, and fp8 output of every norm.
#include <cmath>

#include "lang_gpu_fixture.h"
#include "stretto/device/lang/kernels/all_reduce.h"
#include "stretto/device/lang/kernels/all_reduce_norm.h"
#include "stretto/device/lang/kernels/scatter_norm_gather.h"

namespace stretto::fabric {
namespace {

constexpr uint64 kTokens = 11, kRowVectors = 10, kColumns = kRowVectors * 8;
constexpr uint64 kVectors = kTokens * kRowVectors;
constexpr float kScale = 1.0f / 64;  // the largest normed value is in the range of fp8

// Whole numbers and halves: sums of any ranks are exact in bf16 and fp16.
float value_at(int rank, uint64 call, uint64 i) {
  return float(int((uint64(rank) * 5 + call * 11 + i * 3) % 17) - 8) / 2;
}
float residual_at(uint64 i) { return float(int(i % 13) - 6); }
float weight_at(uint64 column) { return 0.5f + float(column % 8) / 8; }

template <class Format>
std::vector<uint16_t> rounded(uint64 count, const std::function<float(uint64)>& value) {
  std::vector<uint16_t> bits;
  for (uint64 i = 0; i < count; ++i) bits.push_back(uint16_t(Format::round(value(i))));
  return bits;
}

class FormatsGpuTest : public LangGpuTest {
 protected:
  void SetUp() override {
    LangGpuTest::SetUp();
    if (IsSkipped()) return;
    const auto num = size_t(ranks_);
    const size_t bytes = 2 * kVectors * 16;  // room behind the tokens for ranks without any
    input_ = group_->allocate("input", bytes, 0);
    residual_ = group_->allocate("residual", bytes, 0);
    new_residual_ = group_->allocate("new_residual", bytes, 0);
    output_ = group_->allocate("output", bytes, 0);
    weight_ = group_->allocate("weight", kRowVectors * 16, 0);
    scale_ = group_->allocate("scale", 4, 0);
    slots_ = group_->allocate("slots", 8 * num * bytes, Bf16x8::kPoison);
    greetings_ = group_->allocate("greetings", 3 * num * 16, kNoGreeting);
    signals_ = group_->allocate("signals", 2 * num * kTokens * 8, 0);
    state_ = group_->allocate("state", kBlocks * 8, 0);
    for (int r = 0; r < ranks_; ++r) {
      upload(r, scale_, std::vector<float>{kScale});
      upload(r, weight_, rounded<Bf16>(kColumns, weight_at));
      upload(r, residual_, rounded<Bf16>(kTokens * kColumns, residual_at));
    }
  }
  template <class Format>
  void upload_inputs(uint64 call) {
    for (int r = 0; r < ranks_; ++r) {
      upload(r, input_,
             rounded<Format>(kTokens * kColumns, [&](uint64 i) { return value_at(r, call, i); }));
    }
  }
  float sum_at(uint64 call, uint64 i) const {
    float sum = 0;
    for (int r = 0; r < ranks_; ++r) sum += value_at(r, call, i);
    return sum;
  }
  AllReduceArgs<GpuBlock> reduce_args(int r) const {
    return {group_->at<Vec16>(r, input_), group_->at<Vec16>(r, output_),    kVectors, kVectors,
            group_->at<Vec16>(r, slots_), group_->at<Vec16>(r, greetings_), state(r)};
  }
  // Those of all norms: of own rows, from the first one.
  template <class Args>
  Args norm_args(int r, bool own_rows) const {
    const uint64 first = own_rows ? first_own(r) * kRowVectors : 0;
    Args args{};
    args.input = group_->at<Vec16>(r, input_);
    args.residual = group_->at<Vec16>(r, residual_) + first;
    args.new_residual = group_->at<Vec16>(r, new_residual_) + first;
    args.output = group_->at<Vec16>(r, output_);
    args.norm = {group_->at<Vec16>(r, weight_), group_->at<float>(r, scale_), 1e-5f};
    args.row_vectors = kRowVectors;
    return args;
  }
  template <class Args>
  Args shared_args(int r, bool own_rows) const {
    auto args = norm_args<Args>(r, own_rows);
    args.tokens = args.max_tokens = kTokens;
    args.slots = group_->at<Vec16>(r, slots_);
    args.greetings = group_->at<Vec16>(r, greetings_);
    args.state = state(r);
    return args;
  }
  // Three calls of a norm of all tokens; the residual is kept by all ranks or by each row's owner.
  template <class Args>
  void expect_fp8_norms(
      const cuda::LangKernelName& name, bool own_rows,
      const std::function<void(int, Args&)>& finish = [](int, Args&) {}) {
    const Kernels kernels = compile(name);
    for (uint64 call = 0; call < 3; ++call) {
      SCOPED_TRACE(fmt::format("{} call {}", name.kernel, call));
      upload_inputs<Bf16>(call);
      for (int r = 0; r < ranks_; ++r) {
        auto args = shared_args<Args>(r, own_rows);
        finish(r, args);
        launch(kernels, r, args);
      }
      ASSERT_EQ(error_of_run(), "");
      for (int r = 0; r < ranks_ && !HasFatalFailure(); ++r) {
        const auto sums = [&](uint64 i) { return sum_at(call, i) + residual_at(i); };
        expect_rows_of_fp8(r, sums);
        const uint64 first = own_rows ? first_own(r) : 0;
        const uint64 end = own_rows ? first_own(r + 1) : kTokens;
        expect_residual(r, first, end, sums);
      }
    }
  }
  void expect_rows_of_fp8(int rank, const std::function<float(uint64)>& sum) {
    const auto got = download<uint8_t>(rank, output_, kTokens * kColumns);
    for (uint64 row = 0; row < kTokens; ++row) {
      double squares = 0;
      for (uint64 c = 0; c < kColumns; ++c) squares += std::pow(double(sum(row * kColumns + c)), 2);
      const double factor = 1 / std::sqrt(squares / double(kColumns) + 1e-5);
      for (uint64 c = 0; c < kColumns; ++c) {
        const uint64 i = row * kColumns + c;
        const double want = double(sum(i)) * factor * double(weight_at(c));
        const double is = double(e4m3_to_float(got[i])) * double(kScale);
        ASSERT_NEAR(is, want, std::abs(want) / 15 + 2e-5) << "rank " << rank << " element " << i;
        ASSERT_NE(got[i], 0x80) << "a negative zero";
      }
    }
  }
  void expect_residual(int rank, uint64 first, uint64 end,
                       const std::function<float(uint64)>& sum) {
    const auto got = download<uint16_t>(rank, new_residual_, kTokens * kColumns);
    for (uint64 i = first * kColumns; i < end * kColumns; ++i) {
      ASSERT_EQ(Bf16::widen(got[i]), sum(i)) << "rank " << rank << " element " << i;
    }
  }
  uint64 first_own(int r) const {
    return std::min((kTokens + uint64(ranks_) - 1) / uint64(ranks_) * uint64(r), kTokens);
  }
  uint64* state(int r) const { return group_->at<uint64>(r, state_); }

  size_t input_, residual_, new_residual_, output_, weight_, scale_, slots_, greetings_, signals_,
      state_;
};

TEST_F(FormatsGpuTest, AllReducesOfFp16) {
  for (const char* shots : {"one_shot", "two_shot"}) {
    SCOPED_TRACE(shots);
    const Kernels kernels =
        compile({"kernels/all_reduce.h", fmt::format("all_reduce_{}<Fp16x8, GpuBlock, 4>", shots),
                 "AllReduceArgs<GpuBlock>"});
    for (uint64 call = 0; call < 5; ++call) {
      upload_inputs<Fp16>(call);
      for (int r = 0; r < ranks_; ++r) launch(kernels, r, reduce_args(r));
      ASSERT_EQ(error_of_run(), "");
      for (int r = 0; r < ranks_; ++r) {
        const auto got = download<uint16_t>(r, output_, kTokens * kColumns);
        for (uint64 i = 0; i < kTokens * kColumns; ++i) {
          ASSERT_EQ(Fp16::widen(got[i]), sum_at(call, i)) << "rank " << r << " element " << i;
        }
      }
    }
    group_->refill(slots_);
    group_->refill(greetings_);
    group_->refill(state_);
  }
}

TEST_F(FormatsGpuTest, Fp8OfTheNormAlone) {
  const Kernels kernels =
      compile({"kernels/norm.h", "add_norm<GpuBlock>", "AddNormArgs<GpuBlock>"});
  upload_inputs<Bf16>(0);
  for (int r = 0; r < ranks_; ++r) {
    auto args = norm_args<AddNormArgs<GpuBlock>>(r, false);
    args.rows = kTokens;
    launch(kernels, r, args);
  }
  ASSERT_EQ(error_of_run(), "");
  for (int r = 0; r < ranks_; ++r) {
    const auto sums = [&](uint64 i) { return value_at(r, 0, i) + residual_at(i); };
    expect_rows_of_fp8(r, sums);
    expect_residual(r, 0, kTokens, sums);
  }
}

TEST_F(FormatsGpuTest, Fp8OfTheFusedNormInOneShot) {
  expect_fp8_norms<AllReduceNormArgs<GpuBlock>>(
      {"kernels/all_reduce_norm.h", "all_reduce_norm_one_shot<GpuBlock, 4>",
       "AllReduceNormArgs<GpuBlock>"},
      false);
}

TEST_F(FormatsGpuTest, Fp8OfTheFusedNormInTwoShots) {
  expect_fp8_norms<AllReduceNormArgs<GpuBlock>>(
      {"kernels/all_reduce_norm.h", "all_reduce_norm_two_shot<GpuBlock, 4>",
       "AllReduceNormArgs<GpuBlock>"},
      false);
}

TEST_F(FormatsGpuTest, Fp8OfTheFusedNormWithOwnRows) {
  expect_fp8_norms<OwnRowsNormArgs<GpuBlock>>(
      {"kernels/all_reduce_norm.h", "all_reduce_norm_own_rows<GpuBlock, 4>",
       "OwnRowsNormArgs<GpuBlock>"},
      true);
}

TEST_F(FormatsGpuTest, Fp8OfTheFusedNormInChunks) {
  expect_fp8_norms<ScatterNormGatherArgs<GpuBlock>>(
      {"kernels/scatter_norm_gather.h", "scatter_norm_gather<GpuBlock>",
       "ScatterNormGatherArgs<GpuBlock>"},
      true, [&](int r, ScatterNormGatherArgs<GpuBlock>& args) {
        args.rows_per_chunk = 2;
        args.arrived = group_->at<uint64>(r, signals_);
        args.done = args.arrived + uint64(ranks_) * kTokens;
      });
}

}  // namespace
}  // namespace stretto::fabric
