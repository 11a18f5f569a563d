// The primitives of the device language on GPUs, in every form: what puts, gets, signals and
// atomics do of threads, warps and blocks, and grids that are refused.
#include "primitive_kernels.h"

namespace stretto::fabric {
namespace {

using ::testing::HasSubstr;

std::string source_of(const char* kernel) {
  return own_source(kPrimitiveArgs, kPrimitivesCode, kernel, "PrimitiveArgs");
}

TEST(PrimitivesGpuText, Compiles) {
  for (const char* kernel : {"put_and_get", "put_with_signals", "count"}) {
    expect_compiles(source_of(kernel));
  }
}

class PrimitivesGpuTest : public LangGpuTest {
 protected:
  void SetUp() override {
    LangGpuTest::SetUp();
    if (IsSkipped()) return;
    all_ = size_t(ranks_) * kBlocks * kThreads;
    source_ = group_->allocate("source", kRowBytes, 0);
    dest_ = group_->allocate("dest", kForms * kBlocks * kRowBytes, 0xeeeeeeee);
    inbox_ = group_->allocate("inbox", kSignalForms * kBlocks * kThreads * 8, 0);
    message_ = group_->allocate("message", kBlocks * kThreads * 8, 0);
    signals_ = group_->allocate("signals", kSignalForms * kBlocks * 8, 0);
    wide_ = group_->allocate("wide", (8 + size_t(ranks_) * kBlocks) * 8, 0);
    narrow_ = group_->allocate("narrow", (8 + size_t(ranks_) * kBlocks) * 4, 0);
    seen_ = group_->allocate("seen", all_ * 4, 0);
    wrong_ = group_->allocate("wrong", kBlocks * 8, 0);
    for (int r = 0; r < ranks_; ++r) {
      std::vector<uint8_t> bytes(kBytes);
      for (int i = 0; i < kBytes; ++i) bytes[size_t(i)] = byte_at(r, i);
      upload(r, source_, bytes);
    }
  }
  static uint8_t byte_at(int rank, int i) { return uint8_t(rank * 31 + i * 7 + i / 256); }
  std::string run(const char* kernel, int rounds = 1) {
    const OwnKernels kernels = compile_own(source_of(kernel), 64);
    for (int r = 0; r < ranks_; ++r) {
      launch(kernels, r,
             PrimitiveArgs{group_->at<uint8>(r, source_), group_->at<uint8>(r, dest_),
                           group_->at<uint64>(r, inbox_), group_->at<uint64>(r, message_),
                           group_->at<uint64>(r, signals_), group_->at<uint64>(r, wide_),
                           group_->at<uint32>(r, narrow_), group_->at<uint32>(r, seen_),
                           group_->at<uint64>(r, wrong_), kBytes, rounds});
    }
    return error_of_run();
  }
  uint64 wrong() { return sum_of_blocks(wrong_); }

  size_t all_ = 0;
  size_t source_, dest_, inbox_, message_, signals_, wide_, narrow_, seen_, wrong_;
};

TEST_F(PrimitivesGpuTest, EveryFormOfPutAndGetMovesTheBytesAndNoOthers) {
  ASSERT_EQ(run("put_and_get"), "");
  constexpr int kShifts[] = {0, 8, 4, 1, 16, 2};
  for (int r = 0; r < ranks_; ++r) {
    const auto dest = download<uint8_t>(r, dest_, kForms * kBlocks * kRowBytes);
    for (int form = 0; form < kForms; ++form) {
      const int from = (r + (form % 4 < 2 ? ranks_ - 1 : 1)) % ranks_;
      for (int b = 0; b < kBlocks; ++b) {
        for (int i = 0; i < kRowBytes; ++i) {
          const uint8_t want = i >= kShifts[b] && i < kBytes ? byte_at(from, i) : 0xee;
          ASSERT_EQ(dest[size_t((form * kBlocks + b) * kRowBytes + i)], want)
              << fmt::format("rank {} form {} block {} byte {}", r, form, b, i);
        }
      }
    }
  }
}

TEST_F(PrimitivesGpuTest, SignalsComeAfterTheirDataInEveryForm) {
  ASSERT_EQ(run("put_with_signals", kRounds), "");
  EXPECT_EQ(wrong(), 0u);
  for (int r = 0; r < ranks_; ++r) {
    EXPECT_EQ(download<uint64>(r, signals_, kSignalForms * kBlocks),
              std::vector<uint64>(kSignalForms * kBlocks, kRounds));
  }
}

TEST_F(PrimitivesGpuTest, AtomicsOfAllRanksAndInSharedMemoryCount) {
  ASSERT_EQ(run("count"), "");
  EXPECT_EQ(wrong(), 0u);
  const auto wide = download<uint64>(ranks_ - 1, wide_, 5);
  const auto narrow = download<uint32>(ranks_ - 1, narrow_, 4);
  EXPECT_EQ(wide[0], all_);
  EXPECT_EQ(wide[1], all_);
  EXPECT_EQ(wide[2] + wide[3], all_ * (all_ + 1) / 2);
  EXPECT_EQ(wide[4], all_);
  EXPECT_EQ(narrow[0], all_);
  EXPECT_EQ(narrow[1], all_);
  EXPECT_EQ(narrow[2] + narrow[3], all_ * (all_ + 1) / 2);
  EXPECT_EQ(download<uint32>(0, seen_, all_), std::vector<uint32>(all_, 2));
}

TEST_F(PrimitivesGpuTest, GridsAsLargeAsTheGroupMeetAndLargerOnesAreRefused) {
  const Kernels meets =
      compile({"shmem.h", "[](GpuBlock& block, const Vec16&) { Shmem(block).barrier_all_block(); }",
               "Vec16"});
  const int most = cuda::ranks_a_gpu() > 1 ? fabric_->device(0).num_sms() : 256;
  for (int call = 0; call < 3; ++call) {
    for (int r = 0; r < ranks_; ++r) launch(meets, r, Vec16{}, most);
    ASSERT_EQ(error_of_run(), "");
  }
  const auto refusal = [&](int blocks, int threads, const GpuWorld& world) -> std::string {
    fabric_->device(0).make_current();
    try {
      meets[0]->launch(*streams_[0], blocks, threads, world, Vec16{});
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal(257, kThreads, group_->world(0)),
              HasSubstr("257 blocks, but their symmetric heap was made for 256"));
  EXPECT_THAT(refusal(1, 48, group_->world(0)), HasSubstr("48 threads a block"));
  EXPECT_THAT(refusal(1, 2 * kThreads, group_->world(0)), HasSubstr("128 threads a block"));
  const LangGroup roomy(*fabric_, 1 << 20, 20'000);
  EXPECT_THAT(refusal(20'000, kThreads, roomy.world(0)),
              HasSubstr("20000 blocks of 64 threads wait for each other and cannot all run"));
}

}  // namespace
}  // namespace stretto::fabric
