// Buffers of more than 2^31 elements: rows at their ends, about their 2^31st element and between
// are what the integers of the inputs make, in both instances of what is sent.
//
// 5 to 10 s and up to 35 GB a GPU each, most of it to allocate.
#include <gtest/gtest.h>

#include <bit>
#include <random>

#include "gpu/test_data.h"
#include "gpu_plans.h"
#include "stall_guard.h"
#include "stretto/reference.h"
#include "tables/large_plans.h"

namespace stretto::runtime {
namespace {

using cuda::check;
using cuda::driver;

constexpr int kRanks = 2;

float float_of(uint16_t bf16) { return std::bit_cast<float>(uint32_t{bf16} << 16); }

// To the nearest, ties to even.
uint16_t bf16_of(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

class LargePlansOnGpus : public testing::TestWithParam<cuda::LargePlan> {
 protected:
  void SetUp() override {
    if (const std::string why = why_not_here(kRanks); !why.empty()) STRETTO_SKIP(why);
    if (cuda::ranks_a_gpu() > 1) STRETTO_SKIP("ranks that share a GPU may not find the memory");
  }
  static fabric::Fabric& fabric() { return shared_fabric(kRanks); }

  std::vector<float> read(cuda::DevicePtr from, int64_t count) const {
    std::vector<uint16_t> bits(static_cast<size_t>(count));
    cuda::copy_from_gpu(bits.data(), from, bits.size() * sizeof(uint16_t));
    std::vector<float> values;
    values.reserve(bits.size());
    for (const uint16_t one : bits) values.push_back(float_of(one));
    return values;
  }

  // Whole numbers from -2 to 2: sums of 16400 products are exact in fp32, partial sums of 64 in
  // bf16 too.
  void fill_inputs(const PlanRunner& runner, uint64_t seed) {
    for (int rank = 0; rank < kRanks; ++rank) {
      fabric().device(rank).make_current();
      const cuda::TestData data(fabric().device(rank), shared_compiler());
      const cuda::Stream& stream = runner.stream(rank);
      runner.memory().poison(rank, stream);
      for (const Input input : {Input::a, Input::b}) {
        const Slice slice = input_slice(op_, input, rank);
        data.fill(stream, runner.buffer(input == Input::a ? "a" : "b", rank),
                  slice.rows() * slice.cols(), op_.dtype, device::Fill::integers,
                  seed * 16 + static_cast<uint64_t>(rank * 2 + (input == Input::a ? 0 : 1)));
      }
      stream.synchronize();
    }
    b_.clear();
    for (int rank = 0; rank < kRanks; ++rank) {
      fabric().device(rank).make_current();
      const Slice slice = input_slice(op_, Input::b, rank);
      b_.push_back(read(runner.buffer("b", rank), slice.rows() * slice.cols()));
    }
  }

  // What `rank`'s output has in this row, by the inputs as they lie in memory.
  std::vector<uint16_t> expected_row(const PlanRunner& runner, int rank, int64_t row) const {
    const Slice out = output_slice(op_, rank);
    std::vector<float> sums(static_cast<size_t>(out.cols()), 0);
    for (int owner = 0; owner < kRanks; ++owner) {
      const Slice a = input_slice(op_, Input::a, owner);
      if (row < a.row0 || row >= a.row1) continue;
      fabric().device(owner).make_current();
      const auto k = static_cast<size_t>(a.cols());
      const std::vector<float> values =
          read(runner.buffer("a", owner) +
                   static_cast<uint64_t>(row - a.row0) * static_cast<uint64_t>(a.cols()) * 2,
               a.cols());
      const std::vector<float>& b = b_[static_cast<size_t>(op_.makes_terms() ? owner : rank)];
      for (size_t col = 0; col < sums.size(); ++col) {
        for (size_t i = 0; i < k; ++i) sums[col] += values[i] * b[col * k + i];
      }
    }
    std::vector<uint16_t> bits;
    bits.reserve(sums.size());
    for (const float sum : sums) bits.push_back(bf16_of(sum));
    return bits;
  }

  std::vector<int64_t> sampled_rows(const Slice& slice, int64_t large_cols,
                                    std::mt19937_64& random) {
    const int64_t middle = (int64_t{1} << 31) / large_cols;  // of the large buffer's rows
    std::vector<int64_t> rows;
    for (const int64_t row : {int64_t{0}, middle / 2, middle - 1, middle, middle + 1}) {
      if (row >= 0 && row < slice.rows()) rows.push_back(slice.row0 + row);
    }
    rows.push_back(slice.row1 - 1);
    for (int i = 0; i < 4; ++i) {
      rows.push_back(slice.row0 +
                     static_cast<int64_t>(random() % static_cast<uint64_t>(slice.rows())));
    }
    return rows;
  }

  const Segment op_ = parse_segment(GetParam().op);
  std::vector<std::vector<float>> b_;  // by rank
  StallGuard guard_{std::chrono::seconds(60)};
};

TEST_P(LargePlansOnGpus, AreRight) {
  guard_.at("make the plan");
  const Plan plan = plan_here(GetParam().op, GetParam().schedule);
  const Buffer& large = plan.buffers[*plan.find_buffer(GetParam().large)];
  ASSERT_GT(int64_t{large.rows} * large.cols, int64_t{1} << 31);
  guard_.at("make the runner");
  PlanRunner runner(plan, fabric(), shared_compiler());
  std::mt19937_64 random(5);
  for (uint64_t run = 0; run < 2; ++run) {
    guard_.at("fill the inputs");
    fill_inputs(runner, run + 1);
    guard_.at("run");
    for (int rank = 0; rank < kRanks; ++rank) {
      fabric().device(rank).make_current();
      runner.enqueue(rank);
    }
    ASSERT_NO_THROW(runner.finish());
    guard_.at("compare");
    for (int rank = 0; rank < kRanks; ++rank) {
      const Slice out = output_slice(op_, rank);
      for (const int64_t row : sampled_rows(out, large.cols, random)) {
        const std::vector<uint16_t> expected = expected_row(runner, rank, row);
        fabric().device(rank).make_current();
        const std::vector<float> found =
            read(runner.buffer("out", rank) +
                     static_cast<uint64_t>(row - out.row0) * static_cast<uint64_t>(out.cols()) * 2,
                 out.cols());
        int64_t wrong = 0, nonzero = 0;
        for (size_t col = 0; col < expected.size(); ++col) {
          wrong += found[col] != float_of(expected[col]);
          nonzero += found[col] != 0;
        }
        EXPECT_EQ(wrong, 0) << "run " << run << ", rank " << rank << ", row " << row;
        EXPECT_GT(nonzero, out.cols() / 2) << "row " << row;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Elements, LargePlansOnGpus, testing::ValuesIn(cuda::kLargePlans),
                         [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace stretto::runtime
