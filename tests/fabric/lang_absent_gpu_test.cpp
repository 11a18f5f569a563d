// A rank that never comes, for every kernel that adds up over ranks: the others end by the deadline
// and say who waited, for what and for whom; the next call on the same group is right again.
#include <chrono>
#include <cmath>
#include <functional>

#include "lang_gpu_fixture.h"
#include "stretto/device/lang/kernels/all_reduce.h"
#include "stretto/device/lang/kernels/all_reduce_norm.h"
#include "stretto/device/lang/kernels/gather_scatter.h"
#include "stretto/device/lang/kernels/scatter_norm_gather.h"

namespace stretto::fabric {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint64 kTokens = 5, kRowVectors = 8, kColumns = kRowVectors * 8;
constexpr uint64 kVectors = kTokens * kRowVectors, kElements = kTokens * kColumns;

float value_at(int rank, uint64 i) { return float(int((uint64(rank) * 5 + i * 3) % 17) - 8); }
float residual_at(uint64 i) { return float(int(i % 13) - 6); }

class AbsentRankGpuTest : public LangGpuTest {
 protected:
  void SetUp() override {
    LangGpuTest::SetUp();
    if (IsSkipped()) return;
    const size_t bytes = 2 * kVectors * 16;  // room behind the tokens for ranks without any
    const auto take = [&](const char* name, size_t num_bytes, uint32_t fill) {
      return group_->allocate(name, num_bytes, fill);
    };
    const auto num = size_t(ranks_);
    input_ = take("input", bytes, 0);
    residual_ = take("residual", bytes, 0);
    new_residual_ = take("new_residual", bytes, 0);
    output_ = take("output", bytes, 0);
    weight_ = take("weight", kRowVectors * 16, 0);
    slots_ = take("slots", 8 * num * bytes, Bf16x8::kPoison);
    greetings_ = take("greetings", 3 * num * 16, kNoGreeting);
    signals_ = take("signals", 2 * num * kTokens * 8, 0);
    state_ = take("state", kBlocks * 8, 0);
  }

  // One call on all ranks but `absent`, which may be -1; its error.
  std::string call(const std::function<void(int)>& launch_on, int absent) {
    for (int r = 0; r < ranks_; ++r) {
      std::vector<uint16_t> input, residual, weight(kColumns, uint16_t(Bf16::round(1.0f)));
      for (uint64 i = 0; i < kElements; ++i) {
        input.push_back(uint16_t(Bf16::round(value_at(r, i))));
        residual.push_back(uint16_t(Bf16::round(residual_at(i))));
      }
      upload(r, input_, input);
      upload(r, residual_, residual);
      upload(r, weight_, weight);
    }
    for (int r = 0; r < ranks_; ++r) {
      if (r != absent) launch_on(r);
    }
    return error_of_run();
  }
  void expect_named_and_right_again(const std::function<void(int)>& launch_on,
                                    const std::function<void(int)>& expect_right) {
    const auto call_well = [&] {
      ASSERT_EQ(call(launch_on, -1), "");
      for (int r = 0; r < ranks_; ++r) expect_right(r);
    };
    for (const int absent : {ranks_ - 1, 0}) {
      SCOPED_TRACE(fmt::format("rank {} does not come", absent));
      call_well();
      const auto start = std::chrono::steady_clock::now();
      const std::string error = call(launch_on, absent);
      EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
      EXPECT_THAT(error, HasSubstr(fmt::format(" waited 200 ms for rank {}: byte ", absent)));
      EXPECT_THAT(error, AnyOf(HasSubstr("of 'slots' has not been written"),
                               HasSubstr("of 'greetings' has not been written"),
                               HasSubstr("of 'signals' is")));
      for (int r = 0; r < ranks_; ++r) {
        if (r == absent) continue;
        EXPECT_THAT(error, Not(HasSubstr(fmt::format("ms for rank {}:", r))));
      }
      EXPECT_THAT(error, Not(HasSubstr(fmt::format("rank {} block", absent))));
      call_well();  // check() has refilled what was allocated, `state` too
      call_well();
      if (HasFatalFailure()) return;
    }
  }

  float sum_at(uint64 i) const {
    float sum = 0;
    for (int r = 0; r < ranks_; ++r) sum += value_at(r, i);
    return sum;
  }
  void expect_sums(int rank) {
    const auto got = download<uint16_t>(rank, output_, kElements);
    for (uint64 i = 0; i < kElements; ++i) ASSERT_EQ(Bf16::widen(got[i]), sum_at(i)) << i;
  }
  void expect_norms(int rank) {
    const auto got = download<uint16_t>(rank, output_, kElements);
    for (uint64 row = 0; row < kTokens; ++row) {
      double squares = 0;
      for (uint64 i = row * kColumns; i < (row + 1) * kColumns; ++i) {
        squares += std::pow(double(sum_at(i) + residual_at(i)), 2);
      }
      const double factor = 1 / std::sqrt(squares / double(kColumns) + 1e-5);
      for (uint64 i = row * kColumns; i < (row + 1) * kColumns; ++i) {
        const double want = double(sum_at(i) + residual_at(i)) * factor;
        ASSERT_NEAR(double(Bf16::widen(got[i])), want, std::abs(want) / 200 + 1e-6) << i;
      }
    }
  }

  AllReduceArgs<GpuBlock> reduce_args(int r) const {
    return {group_->at<Vec16>(r, input_), group_->at<Vec16>(r, output_),    kVectors, kVectors,
            group_->at<Vec16>(r, slots_), group_->at<Vec16>(r, greetings_), state(r)};
  }
  uint64 part_vectors() const { return (kVectors + uint64(ranks_) - 1) / uint64(ranks_); }
  PartsArgs<GpuBlock> parts_args(int r) const {
    return {group_->at<Vec16>(r, input_),
            group_->at<Vec16>(r, output_),
            part_vectors(),
            kVectors,
            part_vectors(),
            group_->at<Vec16>(r, slots_),
            group_->at<Vec16>(r, greetings_),
            state(r)};
  }
  OwnRowsNormArgs<GpuBlock> norm_args(int r, bool own_rows) const {
    OwnRowsNormArgs<GpuBlock> args{};
    args.input = group_->at<Vec16>(r, input_);
    args.residual = group_->at<Vec16>(r, residual_) + (own_rows ? first_own(r) : 0);
    args.new_residual = group_->at<Vec16>(r, new_residual_);
    args.output = group_->at<Vec16>(r, output_);
    args.norm = {group_->at<Vec16>(r, weight_), nullptr, 1e-5f};
    args.tokens = args.max_tokens = kTokens;
    args.row_vectors = kRowVectors;
    args.slots = group_->at<Vec16>(r, slots_);
    args.greetings = group_->at<Vec16>(r, greetings_);
    args.state = state(r);
    return args;
  }
  ScatterNormGatherArgs<GpuBlock> chunk_args(int r) const {
    const auto norm = norm_args(r, true);
    ScatterNormGatherArgs<GpuBlock> args{};
    args.input = norm.input;
    args.residual = norm.residual;
    args.new_residual = norm.new_residual;
    args.output = norm.output;
    args.norm = norm.norm;
    args.tokens = args.max_tokens = kTokens;
    args.row_vectors = kRowVectors;
    args.rows_per_chunk = 1;
    args.slots = norm.slots;
    args.arrived = group_->at<uint64>(r, signals_);
    args.done = args.arrived + uint64(ranks_) * kTokens;
    args.greetings = norm.greetings;
    args.state = norm.state;
    return args;
  }
  uint64* state(int r) const { return group_->at<uint64>(r, state_); }
  uint64 first_own(int r) const {
    return std::min((kTokens + uint64(ranks_) - 1) / uint64(ranks_) * uint64(r), kTokens) *
           kRowVectors;
  }

  size_t input_, residual_, new_residual_, output_, weight_, slots_, greetings_, signals_, state_;
};

TEST_F(AbsentRankGpuTest, OfAllReduce) {
  for (const char* shots : {"one_shot", "two_shot"}) {
    SCOPED_TRACE(shots);
    const Kernels kernels =
        compile({"kernels/all_reduce.h", fmt::format("all_reduce_{}<Bf16x8, GpuBlock, 4>", shots),
                 "AllReduceArgs<GpuBlock>"});
    expect_named_and_right_again([&](int r) { launch(kernels, r, reduce_args(r)); },
                                 [&](int r) { expect_sums(r); });
    group_->refill(slots_);
    group_->refill(greetings_);
    group_->refill(state_);
  }
}

TEST_F(AbsentRankGpuTest, OfAllGather) {
  const Kernels kernels = compile(
      {"kernels/gather_scatter.h", "all_gather_one_shot<Bf16x8, GpuBlock>", "PartsArgs<GpuBlock>"});
  expect_named_and_right_again([&](int r) { launch(kernels, r, parts_args(r)); },
                               [&](int r) {
                                 const uint64 part = part_vectors() * 8;
                                 const auto got = download<uint16_t>(r, output_, kElements);
                                 for (uint64 i = 0; i < kElements; ++i) {
                                   ASSERT_EQ(Bf16::widen(got[i]), value_at(int(i / part), i % part))
                                       << i;
                                 }
                               });
}

TEST_F(AbsentRankGpuTest, OfReduceScatter) {
  const Kernels kernels =
      compile({"kernels/gather_scatter.h", "reduce_scatter_one_shot<Bf16x8, GpuBlock>",
               "PartsArgs<GpuBlock>"});
  expect_named_and_right_again([&](int r) { launch(kernels, r, parts_args(r)); },
                               [&](int r) {
                                 const uint64 first = uint64(r) * part_vectors() * 8;
                                 const uint64 end = std::min(first + part_vectors() * 8, kElements);
                                 if (first >= end) return;
                                 const auto got = download<uint16_t>(r, output_, end - first);
                                 for (uint64 i = first; i < end; ++i) {
                                   ASSERT_EQ(Bf16::widen(got[i - first]), sum_at(i)) << i;
                                 }
                               });
}

TEST_F(AbsentRankGpuTest, OfTheFusedNormInOneShot) {
  const Kernels kernels =
      compile({"kernels/all_reduce_norm.h", "all_reduce_norm_one_shot<GpuBlock, 4>",
               "AllReduceNormArgs<GpuBlock>"});
  expect_named_and_right_again(
      [&](int r) { launch<AllReduceNormArgs<GpuBlock>>(kernels, r, norm_args(r, false)); },
      [&](int r) { expect_norms(r); });
}

TEST_F(AbsentRankGpuTest, OfTheFusedNormInTwoShots) {
  const Kernels kernels =
      compile({"kernels/all_reduce_norm.h", "all_reduce_norm_two_shot<GpuBlock, 4>",
               "AllReduceNormArgs<GpuBlock>"});
  expect_named_and_right_again(
      [&](int r) { launch<AllReduceNormArgs<GpuBlock>>(kernels, r, norm_args(r, false)); },
      [&](int r) { expect_norms(r); });
}

TEST_F(AbsentRankGpuTest, OfTheFusedNormWithOwnRows) {
  const Kernels kernels =
      compile({"kernels/all_reduce_norm.h", "all_reduce_norm_own_rows<GpuBlock, 4>",
               "OwnRowsNormArgs<GpuBlock>"});
  expect_named_and_right_again([&](int r) { launch(kernels, r, norm_args(r, true)); },
                               [&](int r) { expect_norms(r); });
}

TEST_F(AbsentRankGpuTest, OfTheFusedNormInChunks) {
  const Kernels kernels = compile({"kernels/scatter_norm_gather.h", "scatter_norm_gather<GpuBlock>",
                                   "ScatterNormGatherArgs<GpuBlock>"});
  expect_named_and_right_again([&](int r) { launch(kernels, r, chunk_args(r)); },
                               [&](int r) { expect_norms(r); });
}

}  // namespace
}  // namespace stretto::fabric
