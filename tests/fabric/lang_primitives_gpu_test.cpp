// The primitives of the device language on GPUs, in every form: what puts, gets, signals and
// atomics do of threads, warps and blocks, and grids that are refused.
#include "lang_gpu_fixture.h"

namespace stretto::fabric {
namespace {

using ::testing::HasSubstr;

STRETTO_ON_BOTH(
    kArgs, struct PrimitiveArgs {
      uint8* source;    // symmetric
      uint8* dest;      // symmetric: kForms rows a block
      uint64* inbox;    // symmetric: a form, block and thread
      uint64* message;  // local: a block and thread
      uint64* signals;  // symmetric: a form and block
      uint64* wide;     // symmetric: see the atomics
      uint32* narrow;   // symmetric
      uint32* seen;     // symmetric: a thread of all ranks
      uint64* wrong;    // local: a block
      int bytes;        // of source
      int rounds;
    };)

constexpr int kForms = 12, kRowBytes = 1024, kBytes = 1003, kRounds = 30, kSignalForms = 8;

constexpr const char* kCode = R"(
STRETTO_KERNEL void put_and_get(GpuBlock& block, const PrimitiveArgs& args) {
  Shmem shmem(block);
  const int next = (shmem.my_pe() + 1) % shmem.n_pes(), b = block.block_idx();
  const int shifts[] = {0, 8, 4, 1, 16, 2};
  const int shift = shifts[b];
  const uint64 bytes = args.bytes - shift;
  const uint8* const from = args.source + shift;
  const auto row = [&](int form) {
    return args.dest + (form * block.num_blocks() + b) * 1024 + shift;
  };
  if (block.thread_idx() == 9) {
    shmem.putmem(row(0), from, bytes, next);
    shmem.putmem_nbi(row(1), from, bytes, next);
    shmem.getmem(row(2), from, bytes, next);
    shmem.getmem_nbi(row(3), from, bytes, next);
    shmem.quiet();
  }
  if (block.thread_idx() >= 32) {
    shmem.putmem_warp(row(4), from, bytes, next);
    shmem.putmem_nbi_warp(row(5), from, bytes, next);
    shmem.getmem_warp(row(6), from, bytes, next);
    shmem.getmem_nbi_warp(row(7), from, bytes, next);
    shmem.quiet();
  }
  shmem.putmem_block(row(8), from, bytes, next);
  shmem.putmem_nbi_block(row(9), from, bytes, next);
  shmem.getmem_block(row(10), from, bytes, next);
  shmem.getmem_nbi_block(row(11), from, bytes, next);
  shmem.quiet();
  shmem.barrier_all_block();
}

STRETTO_KERNEL void put_with_signals(GpuBlock& block, const PrimitiveArgs& args) {
  Shmem shmem(block);
  const int me = shmem.my_pe(), ranks = shmem.n_pes(), b = block.block_idx();
  const int t = block.thread_idx(), threads = block.num_threads(), blocks = block.num_blocks();
  const int next = (me + 1) % ranks, before = (me + ranks - 1) % ranks;
  const uint64 bytes = threads * 8;
  uint64* const message = args.message + b * threads;
  const auto inbox = [&](int form) { return args.inbox + (form * blocks + b) * threads; };
  const auto signal = [&](int form) { return args.signals + form * blocks + b; };
  const auto said = [&](int rank, int round) {
    return uint64((round * 100 + rank) * 100 + b) * threads + t;
  };
  for (int round = 1; round <= args.rounds; ++round) {
    message[t] = said(me, round);
    block.sync();
    if (t == 7) {
      shmem.putmem_signal(inbox(0), message, bytes, signal(0), round, SignalOp::kSet, next);
      shmem.putmem_signal_nbi(inbox(1), message, bytes, signal(1), 1, SignalOp::kAdd, next);
    }
    if (t >= 32) {
      shmem.putmem_signal_warp(inbox(2), message, bytes, signal(2), 1, SignalOp::kAdd, next);
      shmem.putmem_signal_nbi_warp(inbox(3), message, bytes, signal(3), round, SignalOp::kSet,
                                   next);
    }
    shmem.putmem_signal_block(inbox(4), message, bytes, signal(4), round, SignalOp::kSet, next);
    shmem.putmem_signal_nbi_block(inbox(5), message, bytes, signal(5), 1, SignalOp::kAdd, next);
    shmem.ptr(inbox(6), next)[t] = message[t];
    shmem.signal_op_block(signal(6), 1, SignalOp::kAdd, next);
    shmem.p(inbox(7) + t, message[t], next);
    block.sync();
    if (t == 3) shmem.signal_op(signal(7), round, SignalOp::kSet, next);
    for (int form = 0; form < 8; ++form) {
      uint64* const word = signal(form);
      bool came = true;
      if (form % 4 == 0) came = shmem.signal_wait_until_block(word, Compare::kGe, round);
      if (form % 4 == 1) came = shmem.signal_wait_until(word, Compare::kGt, round - 1);
      if (form % 4 == 2) came = shmem.signal_wait_until(word, Compare::kEq, round);
      if (form % 4 == 3) came = shmem.signal_wait_until(word, Compare::kNe, round - 1);
      if (!came) return;
      if (inbox(form)[t] != said(before, round) || shmem.signal_fetch(word) != round) {
        block.fetch_add(args.wrong + b, 1);
      }
    }
    shmem.quiet();
    if (!shmem.sync_all_block()) return;
  }
}

STRETTO_KERNEL void count(GpuBlock& block, const PrimitiveArgs& args) {
  Shmem shmem(block);
  const int me = shmem.my_pe(), ranks = shmem.n_pes(), b = block.block_idx();
  const int t = block.thread_idx(), threads = block.num_threads(), blocks = block.num_blocks();
  const int home = ranks - 1, next = (me + 1) % ranks, own = me * blocks + b;
  const uint32 number = own * threads + t + 1;
  uint64 *const total = args.wide, *const highest = args.wide + 1, *const last = args.wide + 2,
                *const olds = args.wide + 3, *const tickets = args.wide + 4;
  shmem.atomic_add(total, uint64(1), home);
  shmem.atomic_add(args.seen + shmem.atomic_fetch_add(args.narrow, 1u, home), 1u, 0);
  shmem.atomic_add(args.seen + shmem.atomic_fetch_add(tickets, uint64(1), home), 1u, 0);
  uint64 top = shmem.atomic_fetch(highest, home);
  while (top < number) {
    const uint64 old = shmem.atomic_compare_swap(highest, top, uint64(number), home);
    if (old == top) break;
    top = old;
  }
  uint32 top32 = shmem.atomic_fetch(args.narrow + 1, home);
  while (top32 < number) {
    const uint32 old = shmem.atomic_compare_swap(args.narrow + 1, top32, number, home);
    if (old == top32) break;
    top32 = old;
  }
  shmem.atomic_add(olds, shmem.atomic_swap(last, uint64(number), home), home);
  shmem.atomic_add(args.narrow + 3, shmem.atomic_swap(args.narrow + 2, number, home), home);
  if (t == 0) shmem.atomic_set(args.wide + 8 + own, uint64(number), next);
  if (t == 1) shmem.p(args.narrow + 8 + own, number, next);

  uint32* const near32 = shared<uint32>(block, 0);
  uint64* const near64 = shared<uint64>(block, 16);
  if (t < 4) near32[t] = 0, near64[t] = 0;
  block.sync();
  const uint32 old32 = block.exchange(near32, t + 1, Order::kRelaxed, Scope::kBlock);
  const uint64 old64 = block.exchange(near64, t + 1, Order::kRelaxed, Scope::kBlock);
  block.fetch_add(near32 + 1, old32, Order::kRelaxed, Scope::kBlock);
  block.fetch_add(near64 + 1, old64, Order::kRelaxed, Scope::kBlock);
  if (block.compare_swap(near32 + 2, 0, t + 1, Order::kRelaxed, Scope::kBlock) == 0) {
    block.fetch_add(near32 + 3, 1, Order::kRelaxed, Scope::kBlock);
  }
  if (block.compare_swap(near64 + 2, 0, t + 1, Order::kRelaxed, Scope::kBlock) == 0) {
    block.fetch_add(near64 + 3, 1, Order::kRelaxed, Scope::kBlock);
  }
  block.sync();
  const uint32 sum = threads * (threads + 1) / 2;
  if (near32[0] + near32[1] != sum || near64[0] + near64[1] != sum || near32[3] != 1 ||
      near64[3] != 1) {
    block.fetch_add(args.wrong + b, 1);
  }
  if (!shmem.barrier_all_block()) return;
  const uint32 first = own * threads + 1;
  if (shmem.g(args.narrow + 8 + own, next) != first + 1 ||
      shmem.atomic_fetch(args.wide + 8 + own, next) != first) {
    block.fetch_add(args.wrong + b, 1);
  }
}
)";

std::string source_of(const char* kernel) {
  return own_source(kArgs, kCode, kernel, "PrimitiveArgs");
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
