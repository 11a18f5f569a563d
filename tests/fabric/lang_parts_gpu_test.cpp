// All-gather and reduce-scatter in one hop on GPUs, of any number of ranks: the right bits of calls
// of many sizes that follow each other without a pause, and ranks that call otherwise named.
#include "fibre/scenarios/gather_scatter.h"
#include "lang_gpu_fixture.h"

namespace stretto::fabric {
namespace {

using fibre::any_bits;
using fibre::arrived_bits;
using fibre::summand;
using ::testing::HasSubstr;

constexpr uint32 kMostVectors = 1500;  // of a part: four a thread

std::vector<Parts> many_sizes(uint32 ranks) {
  const uint32 all = kBlocks * kThreads;
  std::vector<Parts> calls = {{1, ranks},
                              {all, all * ranks},
                              {kMostVectors, kMostVectors * ranks},
                              {0, 0},
                              {all + 1, (all + 1) * ranks - 1},
                              {3, 1},
                              {kMostVectors, kMostVectors * (ranks - 1) + 7},
                              {all - 1, (all - 1) * (ranks / 2)},
                              {700, 700 * ranks - 650}};
  const size_t once = calls.size();
  for (size_t i = 0; i < 2 * once; ++i) calls.push_back(calls[(i * 5 + 2) % once]);
  return calls;
}

bool is_nan(float value) { return value != value; }

class PartsGpuTest : public LangGpuTest {
 protected:
  // A group of as many ranks, with input and output of each of the calls.
  void start_with(int ranks, uint32 poison, bool gathers) {
    start(ranks);
    gathers_ = gathers;
    calls_ = many_sizes(uint32(ranks));
    const size_t part = kMostVectors * 16, whole = part * size_t(ranks);
    inputs_ = group_->allocate("inputs", calls_.size() * (gathers ? part : whole), 0);
    outputs_ = group_->allocate("outputs", calls_.size() * (gathers ? whole : part), ~0u);
    slots_ = group_->allocate("slots", 2 * whole, poison);
    greetings_ = group_->allocate("greetings", 3 * size_t(ranks) * 16, kNoGreeting);
    state_ = group_->allocate("state", kBlocks * 8, 0);
  }
  size_t input(size_t call) const {
    return inputs_ + call * kMostVectors * 16 * (gathers_ ? 1 : size_t(ranks_));
  }
  size_t output(size_t call) const {
    return outputs_ + call * kMostVectors * 16 * (gathers_ ? size_t(ranks_) : 1);
  }
  PartsArgs<GpuBlock> args(int r, size_t call) const {
    return {group_->at<Vec16>(r, input(call)),
            group_->at<Vec16>(r, output(call)),
            calls_[call].size,
            calls_[call].total,
            kMostVectors,
            group_->at<Vec16>(r, slots_),
            group_->at<Vec16>(r, greetings_),
            group_->at<uint64>(r, state_)};
  }

  static Vec16 bits(int rank, size_t call, uint32 i) {
    Vec16 v;
    for (int w = 0; w < 4; ++w) v.word[w] = any_bits(rank, call, i, w);
    return v;
  }

  template <class Format>
  void upload_inputs() {
    for (size_t call = 0; call < calls_.size(); ++call) {
      for (int r = 0; r < ranks_; ++r) {
        std::vector<Vec16> values(gathers_ ? calls_[call].size_of(r) : calls_[call].total);
        for (uint32 i = 0; i < values.size(); ++i) {
          values[i] = gathers_ ? bits(r, call, i) : summand<Format>(r, call, i);
        }
        upload(r, input(call), values);
      }
    }
  }
  void run_all(const Kernels& kernels) {
    for (size_t call = 0; call < calls_.size(); ++call) {
      for (int r = 0; r < ranks_; ++r) launch(kernels, r, args(r, call));
    }
    ASSERT_EQ(error_of_run(), "");
  }

  void expect_gathered(size_t call, int r, bool halves) {
    const Parts& parts = calls_[call];
    const auto got = download<Vec16>(r, output(call), parts.total);
    for (int from = 0; from < ranks_; ++from) {
      for (uint32 i = 0; i < parts.size_of(from); ++i) {
        const Vec16 was = bits(from, call, i);
        for (int w = 0; w < 4; ++w) {
          ASSERT_EQ(got[parts.first(from) + i].word[w], arrived_bits(was.word[w], halves))
              << fmt::format("call {} rank {} vector {} of rank {}, word {}", call, r, i, from, w);
        }
      }
    }
  }
  // The bits of sums, except that any NaN of fp32 is as good as another.
  template <class Format>
  void expect_sums(size_t call, int r) {
    const Parts& parts = calls_[call];
    const auto got = download<Vec16>(r, output(call), parts.size_of(r));
    for (uint32 i = 0; i < parts.size_of(r); ++i) {
      float sums[Format::kElements] = {};
      for (int from = 0; from < ranks_; ++from) {
        const Vec16 v = summand<Format>(from, call, parts.first(r) + i);
        Format::add(sums, from == r ? v : canonical<Format>(v));
      }
      const Vec16 want = canonical<Format>(Format::round(sums));
      for (int w = 0; w < 4; ++w) {
        if (Format::kElements == 4 && is_nan(sums[w])) {
          ASSERT_TRUE(is_nan(float_of_bits(got[i].word[w])));
          continue;
        }
        ASSERT_EQ(got[i].word[w], want.word[w])
            << fmt::format("call {} rank {} vector {}, word {}", call, r, i, w);
      }
    }
  }

  template <class Format>
  void expect_right(const char* format, bool gathers) {
    const int most = ranks_;
    for (const int in_flight : {8, 4}) {
      for (int ranks = 1; ranks <= most; ++ranks) {
        SCOPED_TRACE(fmt::format("{} ranks, {} in flight", ranks, in_flight));
        start_with(ranks, Format::kPoison, gathers);
        const Kernels kernels =
            compile({"kernels/gather_scatter.h",
                     fmt::format("{}_one_shot<{}, GpuBlock, {}>",
                                 gathers ? "all_gather" : "reduce_scatter", format, in_flight),
                     "PartsArgs<GpuBlock>"});
        upload_inputs<Format>();
        run_all(kernels);
        for (size_t call = 0; call < calls_.size() && !HasFatalFailure(); ++call) {
          for (int r = 0; r < ranks_; ++r) {
            if (gathers) {
              expect_gathered(call, r, Format::kElements == 8);
            } else {
              expect_sums<Format>(call, r);
            }
          }
        }
        if (HasFatalFailure()) return;
      }
    }
  }

  void expect_received(int ranks) {
    SCOPED_TRACE(fmt::format("{} ranks", ranks));
    start_with(ranks, Bf16x8::kPoison, false);
    const Kernels sends = compile(
        {"kernels/send_rows.h", "send_rows<Bf16x8, GpuBlock>", "SendRowsArgs<GpuBlock>", "", true});
    const Kernels receives =
        compile({"kernels/gather_scatter.h",
                 "reduce_scatter_one_shot<Bf16x8, GpuBlock, 4, SentBy::kBefore>",
                 "PartsArgs<GpuBlock>", "", true});
    upload_inputs<Bf16x8>();
    const uint64 parity = uint64(ranks) * kMostVectors;
    for (size_t call = 0; call < calls_.size(); ++call) {
      for (int r = 0; r < ranks_; ++r) {
        const PartsArgs<GpuBlock> own = args(r, call);
        launch(sends, r,
               SendRowsArgs<GpuBlock>{own.input, own.num_vectors, 1, own.part_vectors,
                                      own.slots + uint64(r) * kMostVectors, parity, own.state});
        launch(receives, r, own);
      }
    }
    ASSERT_EQ(error_of_run(), "");
    for (size_t call = 0; call < calls_.size() && !HasFatalFailure(); ++call) {
      for (int r = 0; r < ranks_; ++r) expect_sums<Bf16x8>(call, r);
    }
  }

  bool gathers_ = true;
  std::vector<Parts> calls_;
  size_t inputs_ = 0, outputs_ = 0, slots_ = 0, greetings_ = 0, state_ = 0;
};

TEST_F(PartsGpuTest, GathersBitsOfBf16) { expect_right<Bf16x8>("Bf16x8", true); }
TEST_F(PartsGpuTest, GathersBitsOfFp32) { expect_right<Fp32x4>("Fp32x4", true); }
TEST_F(PartsGpuTest, ScattersSumsOfBf16) { expect_right<Bf16x8>("Bf16x8", false); }
TEST_F(PartsGpuTest, ScattersSumsOfFp16) { expect_right<Fp16x8>("Fp16x8", false); }
TEST_F(PartsGpuTest, ScattersSumsOfFp32) { expect_right<Fp32x4>("Fp32x4", false); }

// In two kernels a call; where a rank has its GPU to itself the second one starts early.
TEST_F(PartsGpuTest, ReceivesWhatTheKernelBeforeSends) {
  const int most = ranks_;
  for (int ranks = 1; ranks <= most && !HasFatalFailure(); ++ranks) expect_received(ranks);
}

class PartsOnOneGpuTest : public PartsGpuTest {
 protected:
  void SetUp() override {
    STRETTO_NEED_PLACES(1);
    if (!cuda::why_no_compiler().empty()) STRETTO_SKIP(cuda::why_no_compiler());
  }
};

TEST_F(PartsOnOneGpuTest, ReceivesWhatItSendsItself) { expect_received(1); }

TEST_F(PartsGpuTest, RanksThatCallOtherwiseAreNamedAndTheGroupGoesOn) {
  start_with(ranks_, Bf16x8::kPoison, true);
  const auto of = [&](const char* kernel) {
    return compile({"kernels/gather_scatter.h", fmt::format("{}<Bf16x8, GpuBlock>", kernel),
                    "PartsArgs<GpuBlock>"});
  };
  const Kernels gather = of("all_gather_one_shot"), scatter = of("reduce_scatter_one_shot");
  for (int r = 0; r < ranks_; ++r) launch(r == 1 ? scatter : gather, r, args(r, 0));
  EXPECT_THAT(error_of_run(), HasSubstr("different arguments: collective is "));
  for (int r = 0; r < ranks_; ++r) launch(gather, r, args(r, r == 1 ? 1 : 0));
  EXPECT_THAT(error_of_run(), HasSubstr("different arguments: num_vectors is "));
  upload_inputs<Bf16x8>();  // check() has refilled them too
  run_all(gather);
  for (size_t call = 0; call < calls_.size() && !HasFatalFailure(); ++call) {
    for (int r = 0; r < ranks_; ++r) expect_gathered(call, r, true);
  }
}

}  // namespace
}  // namespace stretto::fabric
