// Dispatch and combine of eight ranks as large as a model's: fp8 tokens of 7168 columns, blocks of
// 512 threads that fill an SM each, an odd number of them, of which most have no token. What goes
// wrong here and not in one of the tests before it is told by what they wait for: the dispatch
// alone, calls that are queued behind each other, or launches from a thread a rank.
#include <cmath>
#include <thread>

#include "fibre/scenarios/experts_reference.h"
#include "lang_gpu_fixture.h"

namespace stretto::fabric {
namespace {

using fibre::expected_rows;
using fibre::Pattern;
using fibre::Routing;

constexpr int kRanks = 8, kManyBlocks = 15, kManyThreads = 512, kCalls = 6;
constexpr uint32 kMost = 8, kColumns = 7168, kExperts = 256, kTopK = 8, kAlign = 4;

class ManyExpertsGpuTest : public LangGpuTest {
 protected:
  void SetUp() override {
    STRETTO_NEED_PLACES(kRanks);
    if (!cuda::why_no_compiler().empty()) STRETTO_SKIP(cuda::why_no_compiler());
    start(kRanks);
    const size_t local = kExperts / kRanks, slots = size_t{2} * kRanks * kMost;
    shape_ = {kColumns, kExperts, kTopK, kMost, 0, kAlign, 1};
    shape_.max_rows = uint32(kRanks * kMost * kTopK + local * kAlign);
    const auto take = [&](const char* name, size_t bytes) {
      return group_->allocate(name, bytes, 0);
    };
    tokens_ = take("tokens", 4);
    input_ = take("input", kMost * kColumns * 2);
    ids_ = take("ids", kMost * kTopK * 4);
    weights_ = take("weights", kMost * kTopK * 4);
    slots_ = take("slots", slots * kColumns);
    scale_slots_ = take("scale_slots", slots * token_scales(shape_) * 4);
    entry_slots_ = take("entry_slots", slots * kTopK * 16);
    counts_ = take("counts", count_words(shape_, kRanks) * 4);
    parts_ = take("parts", 2 * part_records(kRanks, kManyBlocks) * 8);
    signals_ = take("signals", expert_signals(kRanks, kManyBlocks) * 8);
    token_slots_ = take("token_slots", slots / 2 * 4);
    received_ = take("received", kRanks * 4);
    part_list_ = take("part_list", part_records(kRanks, kManyBlocks) * 8);
    agreed_ = take("agreed", kSameWords * 4);
    entry_rows_ = take("entry_rows", slots / 2 * kTopK * 4);
    entry_weights_ = take("entry_weights", slots / 2 * kTopK * 4);
    offsets_ = take("offsets", (local + 1) * 4);
    expert_counts_ = take("expert_counts", local * 4);
    rows_ = take("rows", size_t{shape_.max_rows} * kColumns);
    row_scales_ = take("row_scales", shape_.max_rows * token_scales(shape_) * 4);
    problems_ = take("problems", kProblems * 4);
    calls_ = take("calls", kManyBlocks * 8);
    // The experts make ones of all rows, so that a token's sum is that of its weights.
    results_ = group_->allocate("results", size_t{shape_.max_rows} * kColumns * 2, 0x3f803f80u);
    sum_slots_ = take("sum_slots", slots * kColumns * 2);
    sum_signals_ = take("sum_signals", expert_signals(kRanks, kManyBlocks) * 8);
    output_ = take("output", kMost * kColumns * 2);
    sum_calls_ = take("sum_calls", kManyBlocks * 8);
    dispatch_ = compile({"kernels/dispatch.h", "dispatch<GpuBlock>", "DispatchArgs<GpuBlock>"},
                        int(dispatch_shared_bytes(shape_, kRanks, kManyThreads)), kManyThreads);
    combine_ = compile({"kernels/combine.h", "combine<GpuBlock>", "CombineArgs<GpuBlock>"},
                       int(combine_shared_bytes(kRanks)), kManyThreads);
    for (int r = 0; r < kRanks; ++r) {
      routings_.push_back(route(Pattern::kUniform, shape_, kRanks, r, 1, kMost));
      std::vector<uint16_t> input;
      for (size_t i = 0; i < kMost * kColumns; ++i) {
        input.push_back(uint16_t(Bf16::round(value_at(r, i / kColumns, i % kColumns))));
      }
      upload(r, tokens_, std::vector<uint32>{kMost});
      upload(r, input_, input);
      upload(r, ids_, routings_.back().ids);
      upload(r, weights_, routings_.back().weights);
    }
  }
  static float value_at(int rank, size_t token, size_t column) {
    return float(int((size_t(rank) * 5 + token * 3 + column * 11) % 17) - 8);
  }
  template <class T>
  void at(T*& pointer, int rank, size_t offset) {
    pointer = group_->at<T>(rank, offset);
  }
  void dispatch(int r) {
    DispatchArgs<GpuBlock> args{};
    args.shape = shape_;
    at(args.device_tokens, r, tokens_);
    at(args.input, r, input_);
    at(args.ids, r, ids_);
    at(args.weights, r, weights_);
    at(args.slots, r, slots_);
    at(args.scale_slots, r, scale_slots_);
    at(args.entry_slots, r, entry_slots_);
    at(args.counts, r, counts_);
    at(args.parts, r, parts_);
    at(args.signals, r, signals_);
    at(args.token_slots, r, token_slots_);
    at(args.received, r, received_);
    at(args.part_list, r, part_list_);
    at(args.agreed, r, agreed_);
    at(args.entry_rows, r, entry_rows_);
    at(args.entry_weights, r, entry_weights_);
    at(args.expert_offsets, r, offsets_);
    at(args.expert_counts, r, expert_counts_);
    at(args.rows, r, rows_);
    at(args.row_scales, r, row_scales_);
    at(args.problems, r, problems_);
    at(args.calls, r, calls_);
    launch(dispatch_, r, args, kManyBlocks, kManyThreads);
  }
  void combine(int r) {
    CombineArgs<GpuBlock> args{};
    args.shape = shape_;
    at(args.device_tokens, r, tokens_);
    at(args.rows, r, results_);
    at(args.token_slots, r, token_slots_);
    at(args.part_list, r, part_list_);
    at(args.agreed, r, agreed_);
    at(args.entry_rows, r, entry_rows_);
    at(args.entry_weights, r, entry_weights_);
    at(args.slots, r, sum_slots_);
    at(args.signals, r, sum_signals_);
    at(args.output, r, output_);
    at(args.calls, r, sum_calls_);
    launch(combine_, r, args, kManyBlocks, kManyThreads);
  }
  void expect_rows() {
    for (int r = 0; r < kRanks; ++r) {
      const auto expected = expected_rows(routings_, shape_, r);
      const auto offsets = download<uint32>(r, offsets_, expected.size() + 1);
      const auto counts = download<uint32>(r, expert_counts_, expected.size());
      const auto rows = download<uint8_t>(r, rows_, size_t{shape_.max_rows} * kColumns);
      const auto scales = download<float>(r, row_scales_, shape_.max_rows * token_scales(shape_));
      const auto problems = download<uint32>(r, problems_, kProblems);
      for (uint32 problem : problems) ASSERT_EQ(problem, 0u);
      uint32 offset = 0;
      for (size_t e = 0; e < expected.size(); ++e) {
        ASSERT_EQ(offsets[e], offset);
        ASSERT_EQ(counts[e], expected[e].size());
        for (size_t i = 0; i < expected[e].size(); ++i) {
          const size_t first = (offset + i) * kColumns;
          for (size_t c = 0; c < kColumns; ++c) {
            const float want = value_at(expected[e][i].source, expected[e][i].token, c);
            const float scale = scales[(first + c) / kScaleGroup];
            ASSERT_NEAR(e4m3_to_float(rows[first + c]) * scale, want, std::abs(want) / 16);
          }
        }
        offset += uint32(expected[e].size() + kAlign - 1) / kAlign * kAlign;
      }
    }
  }
  void expect_sums() {
    for (int r = 0; r < kRanks; ++r) {
      const auto output = download<uint16_t>(r, output_, kMost * kColumns);
      for (size_t t = 0; t < kMost; ++t) {
        float want = 0;
        for (size_t j = 0; j < kTopK; ++j) want += routings_[size_t(r)].weights[t * kTopK + j];
        for (size_t c = 0; c < kColumns; ++c) {
          ASSERT_EQ(Bf16::widen(output[t * kColumns + c]), want);
        }
      }
    }
  }

  ExpertShape shape_{};
  Kernels dispatch_, combine_;
  std::vector<Routing> routings_;
  size_t tokens_, input_, ids_, weights_, slots_, scale_slots_, entry_slots_, counts_, parts_,
      signals_, token_slots_, received_, part_list_, agreed_, entry_rows_, entry_weights_, offsets_,
      expert_counts_, rows_, row_scales_, problems_, calls_, results_, sum_slots_, sum_signals_,
      output_, sum_calls_;
};

TEST_F(ManyExpertsGpuTest, DispatchAlone) {
  for (int call = 0; call < kCalls; ++call) {
    for (int r = 0; r < kRanks; ++r) dispatch(r);
    ASSERT_EQ(error_of_run(), "") << "in call " << call;
  }
  expect_rows();
}

TEST_F(ManyExpertsGpuTest, DispatchAndCombineInTurns) {
  for (int call = 0; call < kCalls; ++call) {
    for (int r = 0; r < kRanks; ++r) dispatch(r);
    ASSERT_EQ(error_of_run(), "") << "in the dispatch of call " << call;
    for (int r = 0; r < kRanks; ++r) combine(r);
    ASSERT_EQ(error_of_run(), "") << "in the combine of call " << call;
  }
  expect_rows();
  expect_sums();
}

TEST_F(ManyExpertsGpuTest, CallsQueuedBehindEachOther) {
  for (int call = 0; call < kCalls; ++call) {
    for (int r = 0; r < kRanks; ++r) {
      dispatch(r);
      combine(r);
    }
    if (call > 0) continue;
    ASSERT_EQ(error_of_run(), "") << "in the first call";
  }
  ASSERT_EQ(error_of_run(), "");
  expect_rows();
  expect_sums();
}

// A rank's combine is launched while others' dispatches are not.
TEST_F(ManyExpertsGpuTest, CallsOfAThreadEachRank) {
  for (int call = 0; call < kCalls; ++call) {
    std::vector<std::thread> threads;
    for (int r = 0; r < kRanks; ++r) {
      threads.emplace_back([this, r] {
        dispatch(r);
        combine(r);
        streams_[size_t(r)]->synchronize();
      });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(error_of_run(), "") << "in call " << call;
  }
  expect_rows();
  expect_sums();
}

}  // namespace
}  // namespace stretto::fabric
