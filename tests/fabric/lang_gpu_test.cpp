// Kernels of the device language on GPUs: dispatch and combine against their reference under every
// routing, and what goes wrong named: ranks that do not come, ranks that call otherwise.
#include <gmock/gmock.h>

#include <algorithm>
#include <functional>

#include "fibre/scenarios/experts_reference.h"
#include "lang_gpu_fixture.h"
#include "stretto/error.h"

namespace stretto::fabric {
namespace {

using namespace device;
using fibre::expected_rows;
using fibre::Pattern;
using fibre::Routing;
using ::testing::HasSubstr;

// Dispatch and combine with memory for both; the experts between them are the host's.
class ExpertsGpuTest : public LangGpuTest {
 protected:
  void SetUp() override {
    LangGpuTest::SetUp();
    if (IsSkipped()) return;
    num_ = uint32(ranks_);
    shape_ = {256, 4 * num_, 3, kMostTokens, 0, 4, 0};
    shape_.max_rows = num_ * kMostTokens * shape_.top_k + 4 * shape_.experts;
    const size_t entries = size_t(num_) * kMostTokens * shape_.top_k;
    const auto take = [&](const char* name, size_t bytes) {
      return group_->allocate(name, bytes, 0);
    };
    input_ = take("input", kMostTokens * row_bytes());
    ids_ = take("ids", entries * 4);
    weights_ = take("weights", entries * 4);
    slots_ = take("slots", 2 * num_ * kMostTokens * row_bytes());
    scale_slots_ = take("scale_slots", 2 * num_ * kMostTokens * 8);
    entry_slots_ = take("entry_slots", 2 * entries * 16);
    counts_ = take("counts", count_words(shape_, num_) * 4);
    parts_ = take("parts", 2 * part_records(num_, kBlocks) * 8);
    signals_ = take("signals", expert_signals(num_, kBlocks) * 8);
    combine_signals_ = take("combine_signals", expert_signals(num_, kBlocks) * 8);
    token_slots_ = take("token_slots", size_t(num_) * kMostTokens * 4);
    received_ = take("received", num_ * 4);
    part_list_ = take("part_list", part_records(num_, kBlocks) * 8);
    agreed_ = take("agreed", kSameWords * 4);
    entry_rows_ = take("entry_rows", entries * 4);
    entry_weights_ = take("entry_weights", entries * 4);
    offsets_ = take("offsets", (shape_.experts + 1) * 4);
    expert_counts_ = take("expert_counts", shape_.experts * 4);
    rows_ = take("rows", shape_.max_rows * row_bytes());
    row_scales_ = take("row_scales", shape_.max_rows * 8);
    problems_ = take("problems", kProblems * 4);
    calls_ = take("calls", 2 * kBlocks * 8);
    combine_slots_ = take("combine_slots", 2 * num_ * kMostTokens * row_bytes());
    output_ = take("output", kMostTokens * row_bytes());
    dispatch_ = compile({"kernels/dispatch.h", "dispatch<GpuBlock>", "DispatchArgs<GpuBlock>"},
                        int(dispatch_shared_bytes(shape_, num_, kThreads)));
    combine_ = compile({"kernels/combine.h", "combine<GpuBlock>", "CombineArgs<GpuBlock>"},
                       int(combine_shared_bytes(num_)));
  }
  size_t row_bytes() const { return size_t{shape_.hidden} * 2; }
  DispatchArgs<GpuBlock> dispatch_args(int r, uint32 tokens) {
    const auto words = [&](size_t offset) { return group_->at<uint32>(r, offset); };
    const auto longs = [&](size_t offset) { return group_->at<uint64>(r, offset); };
    const auto floats = [&](size_t offset) { return group_->at<float>(r, offset); };
    const auto vectors = [&](size_t offset) { return group_->at<Vec16>(r, offset); };
    return {shape_,
            tokens,
            nullptr,
            vectors(input_),
            group_->at<int32>(r, ids_),
            floats(weights_),
            vectors(slots_),
            floats(scale_slots_),
            vectors(entry_slots_),
            words(counts_),
            longs(parts_),
            longs(signals_),
            words(token_slots_),
            words(received_),
            longs(part_list_),
            words(agreed_),
            words(entry_rows_),
            floats(entry_weights_),
            words(offsets_),
            words(expert_counts_),
            vectors(rows_),
            floats(row_scales_),
            words(problems_),
            longs(calls_)};
  }
  CombineArgs<GpuBlock> combine_args(int r, uint32 tokens) {
    const DispatchArgs<GpuBlock> sent = dispatch_args(r, tokens);
    return {shape_,
            tokens,
            nullptr,
            sent.rows,
            sent.token_slots,
            sent.part_list,
            sent.agreed,
            sent.entry_rows,
            sent.entry_weights,
            group_->at<Vec16>(r, combine_slots_),
            group_->at<uint64>(r, combine_signals_),
            group_->at<Vec16>(r, output_),
            sent.calls + kBlocks};
  }
  static float value_at(int rank, size_t token, size_t column) {
    return float(int((size_t(rank) * 5 + token * 3 + column * 11) % 17) - 8);
  }

  void one_call(Pattern pattern, uint64_t seed, uint32 tokens) {
    std::vector<Routing> routings;
    for (int r = 0; r < ranks_; ++r) {
      routings.push_back(route(pattern, shape_, num_, r, seed, tokens));
      std::vector<uint16_t> input;
      for (size_t t = 0; t < tokens; ++t) {
        for (size_t c = 0; c < shape_.hidden; ++c) {
          input.push_back(uint16_t(Bf16::round(value_at(r, t, c))));
        }
      }
      upload(r, input_, input);
      upload(r, ids_, routings.back().ids);
      upload(r, weights_, routings.back().weights);
    }
    for (int r = 0; r < ranks_; ++r) {
      launch(dispatch_, r, dispatch_args(r, routings[size_t(r)].tokens));
    }
    ASSERT_EQ(error_of_run(), "");
    for (int r = 0; r < ranks_; ++r) expect_rows(routings, r);
    for (int r = 0; r < ranks_; ++r) {
      launch(combine_, r, combine_args(r, routings[size_t(r)].tokens));
    }
    ASSERT_EQ(error_of_run(), "");
    for (int r = 0; r < ranks_; ++r) expect_sums(routings[size_t(r)], r);
  }
  void expect_rows(const std::vector<Routing>& routings, int rank) {
    const auto expected = expected_rows(routings, shape_, rank);
    const auto offsets = download<uint32>(rank, offsets_, expected.size() + 1);
    const auto counts = download<uint32>(rank, expert_counts_, expected.size());
    const auto rows = download<uint16_t>(rank, rows_, shape_.max_rows * shape_.hidden);
    uint32 offset = 0;
    for (size_t e = 0; e < expected.size(); ++e) {
      ASSERT_EQ(offsets[e], offset);
      ASSERT_EQ(counts[e], expected[e].size());
      for (size_t i = 0; i < expected[e].size(); ++i) {
        for (size_t c = 0; c < shape_.hidden; ++c) {
          ASSERT_EQ(Bf16::widen(rows[(offset + i) * shape_.hidden + c]),
                    value_at(expected[e][i].source, expected[e][i].token, c));
        }
      }
      offset += uint32(expected[e].size() + 3) / 4 * 4;
    }
  }
  // The experts are the identity: sums of weights times the token, exact in bf16 and fp32 here.
  void expect_sums(const Routing& routing, int rank) {
    const auto output = download<uint16_t>(rank, output_, routing.tokens * shape_.hidden);
    for (size_t t = 0; t < routing.tokens; ++t) {
      float weight = 0;
      for (size_t j = 0; j < shape_.top_k; ++j) {
        const int32_t id = routing.ids[t * shape_.top_k + j];
        if (id >= 0 && id < int32_t(shape_.experts)) weight += routing.weights[t * 3 + j];
      }
      for (size_t c = 0; c < shape_.hidden; ++c) {
        ASSERT_EQ(Bf16::widen(output[t * shape_.hidden + c]), weight * value_at(rank, t, c));
      }
    }
  }

  static constexpr uint32 kMostTokens = 64;
  uint32 num_ = 0;
  ExpertShape shape_{};
  Kernels dispatch_, combine_;
  size_t input_, ids_, weights_, slots_, scale_slots_, entry_slots_, counts_, parts_, signals_,
      combine_signals_, token_slots_, received_, part_list_, agreed_, entry_rows_, entry_weights_,
      offsets_, expert_counts_, rows_, row_scales_, problems_, calls_, combine_slots_, output_;
};

TEST_F(ExpertsGpuTest, EveryRoutingAndNumberOfTokens) {
  uint64_t seed = 0;
  for (Pattern pattern : {Pattern::kUniform, Pattern::kZipf, Pattern::kOneHot, Pattern::kOneRank,
                          Pattern::kEmptyRank, Pattern::kDropped, Pattern::kBadIds}) {
    for (uint32 tokens : {0u, 1u, 7u, kMostTokens}) {
      SCOPED_TRACE(fmt::format("{} of {} tokens", fibre::kPatternNames[int(pattern)], tokens));
      one_call(pattern, ++seed, tokens);
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(download<uint32>(0, problems_, kProblems)[kIdsOutOfRange], 0u);
}

TEST_F(ExpertsGpuTest, ARankThatDoesNotComeIsNamedAndTheGroupGoesOn) {
  for (int r = 0; r + 1 < ranks_; ++r) launch(dispatch_, r, dispatch_args(r, 0));
  EXPECT_THAT(error_of_run(), HasSubstr(fmt::format("waited 200 ms for rank {}", ranks_ - 1)));
  one_call(Pattern::kUniform, 1, 7);
}

TEST_F(ExpertsGpuTest, RanksThatCallOtherwiseAreNamed) {
  for (int r = 0; r < ranks_; ++r) {
    DispatchArgs<GpuBlock> args = dispatch_args(r, 0);
    if (r == 1) args.shape.hidden = 128;
    launch(dispatch_, r, args);
  }
  EXPECT_THAT(error_of_run(), HasSubstr("different arguments: hidden is "));
}

TEST_F(ExpertsGpuTest, RanksOfOtherExpertsOrGridsAreNamed) {
  for (int r = 0; r < ranks_; ++r) {
    DispatchArgs<GpuBlock> args = dispatch_args(r, 0);
    if (r == 1) args.shape.experts /= 2;
    launch(dispatch_, r, args);
  }
  EXPECT_THAT(error_of_run(), HasSubstr("different arguments: experts is "));
  for (int r = 0; r < ranks_; ++r) {
    launch(dispatch_, r, dispatch_args(r, 0), r == 1 ? kBlocks - 1 : kBlocks);
  }
  EXPECT_THAT(error_of_run(), HasSubstr("different arguments: blocks is "));
  one_call(Pattern::kUniform, 1, 7);
}

TEST_F(ExpertsGpuTest, ACombineOtherThanItsDispatchIsNamed) {
  one_call(Pattern::kUniform, 1, 7);
  for (int r = 0; r < ranks_; ++r) {
    CombineArgs<GpuBlock> args = combine_args(r, 7);
    if (r == 1) args.shape.hidden = 128;
    launch(combine_, r, args);
  }
  EXPECT_THAT(error_of_run(),
              HasSubstr("rank 1 calls with hidden = 128, but called before with 256"));
  one_call(Pattern::kUniform, 2, 7);
}

TEST_F(ExpertsGpuTest, BadArgumentsAreRefusedBeforeTheLaunch) {
  DispatchArgs<GpuBlock> args = dispatch_args(0, 1);
  args.input = reinterpret_cast<const Vec16*>(reinterpret_cast<const char*>(args.input) + 8);
  EXPECT_THROW(launch(dispatch_, 0, args), UsageError);
  args = dispatch_args(0, kMostTokens + 1);
  EXPECT_THROW(launch(dispatch_, 0, args), UsageError);
  EXPECT_THROW(group_->allocate("huge", size_t{65} << 20, 0), UsageError);
}

}  // namespace
}  // namespace stretto::fabric
