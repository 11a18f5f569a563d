// Copies of the host joined by signals, on streams of GPUs: what arrives, and waits in vain.
#include "fabric/rank_stream.h"
#include "lang_gpu_fixture.h"

namespace stretto::fabric {
namespace {

using ::testing::HasSubstr;

class RankStreamGpuTest : public LangGpuTest {
 protected:
  static constexpr size_t kCount = 5000;  // of a shard

  void SetUp() override {
    LangGpuTest::SetUp();
    if (IsSkipped()) return;
    num_ = size_t(ranks_);
    shards_ = group_->allocate("shards", kRounds * kCount * 4, 0);
    all_ = group_->allocate("all", num_ * kCount * 4, 0);
    seen_ = group_->allocate("seen", kRounds * num_ * kCount * 4, 0);
    arrived_ = group_->allocate("arrived", num_ * 8, 0);
    taken_ = group_->allocate("taken", 8, 0);
    for (int r = 0; r < ranks_; ++r) {
      fabric_->device(r).make_current();
      second_.push_back(std::make_unique<cuda::Stream>());
      senders_.push_back(make(r, *streams_[size_t(r)]));
      takers_.push_back(make(r, *second_.back()));
    }
  }
  std::unique_ptr<RankStream> make(int r, const cuda::Stream& stream) {
    return std::make_unique<RankStream>(*group_, r, fabric_->device(r), compiler_, stream);
  }
  void synchronize_all() {
    synchronize();
    for (int r = 0; r < ranks_; ++r) {
      fabric_->device(r).make_current();
      second_[size_t(r)]->synchronize();
    }
  }
  static uint32_t value_at(int rank, size_t round, size_t i) {
    return uint32_t(size_t(rank) * 1'000'000 + round * 10'000 + i);
  }

  static constexpr size_t kRounds = 6;
  size_t num_ = 0, shards_, all_, seen_, arrived_, taken_;
  std::vector<std::unique_ptr<cuda::Stream>> second_;
  std::vector<std::unique_ptr<RankStream>> senders_, takers_;
};

// One stream of each rank sends its shard to all, the other keeps what has come and says so, since
// all rounds use the same memory.
TEST_F(RankStreamGpuTest, CopiesArriveBeforeTheirSignals) {
  for (int r = 0; r < ranks_; ++r) {
    std::vector<uint32_t> shards(kRounds * kCount);
    for (size_t i = 0; i < shards.size(); ++i) shards[i] = value_at(r, i / kCount, i % kCount);
    upload(r, shards_, shards);
  }
  for (size_t round = 0; round < kRounds; ++round) {
    for (int r = 0; r < ranks_; ++r) {
      fabric_->device(r).make_current();
      RankStream& sender = *senders_[size_t(r)];
      uint32_t* const all = group_->at<uint32_t>(r, all_);
      sender.rank_wait(group_->at<uint64>(r, taken_), num_ * round);
      for (int k = 0; k < ranks_; ++k) {
        const int peer = (r + k) % ranks_;
        sender.rank_copy_data(all + size_t(r) * kCount,
                              group_->at<uint32_t>(r, shards_) + round * kCount, kCount, peer);
        sender.rank_notify(group_->at<uint64>(r, arrived_) + r, 1, peer);
      }
      RankStream& taker = *takers_[size_t(r)];
      for (int from = 0; from < ranks_; ++from) {
        taker.rank_wait(group_->at<uint64>(r, arrived_) + from, round + 1, from);
        taker.rank_copy_data(
            group_->at<uint32_t>(r, seen_) + (round * num_ + size_t(from)) * kCount,
            all + size_t(from) * kCount, kCount, r);
        taker.rank_notify(group_->at<uint64>(r, taken_), 1, from);
      }
    }
  }
  synchronize_all();
  ASSERT_EQ(error_of_run(), "");
  for (int r = 0; r < ranks_; ++r) {
    const auto seen = download<uint32_t>(r, seen_, kRounds * num_ * kCount);
    for (size_t i = 0; i < seen.size(); ++i) {
      const size_t of = i / kCount;
      ASSERT_EQ(seen[i], value_at(int(of % num_), of / num_, i % kCount)) << "rank " << r;
    }
  }
}

TEST_F(RankStreamGpuTest, AWaitInVainIsNamedAndTheGroupGoesOn) {
  fabric_->device(0).make_current();
  senders_[0]->rank_wait(group_->at<uint64>(0, arrived_) + 1, 3, 1);
  EXPECT_THAT(error_of_run(),
              HasSubstr("rank 0 block 0 waited 200 ms for rank 1: byte 8 of 'arrived' is 0, "
                        "expected 3"));
  fabric_->device(1).make_current();
  senders_[1]->rank_notify(group_->at<uint64>(1, arrived_) + 1, 3, 0);
  fabric_->device(0).make_current();
  senders_[0]->rank_wait(group_->at<uint64>(0, arrived_) + 1, 3, 1);
  EXPECT_EQ(error_of_run(), "");
}

TEST_F(RankStreamGpuTest, MemoryThatIsNotSymmetricIsRefused) {
  fabric_->device(0).make_current();
  const cuda::DeviceMemory local(64);
  const auto refusal = [&](auto call) -> std::string {
    try {
      call(*senders_[0]);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  };
  uint32_t* const all = group_->at<uint32_t>(0, all_);
  EXPECT_THAT(refusal([&](RankStream& s) { s.rank_copy_data(local.as<uint32_t>(), all, 4, 1); }),
              HasSubstr("are no symmetric memory of rank 0"));
  EXPECT_THAT(refusal([&](RankStream& s) { s.rank_copy_data(all, all, size_t{65} << 20, 1); }),
              HasSubstr("are no symmetric memory of rank 0"));
  EXPECT_THAT(refusal([&](RankStream& s) { s.rank_notify(local.as<uint64>(), 1, 1); }),
              HasSubstr("8 bytes at "));
  EXPECT_THAT(refusal([&](RankStream& s) { s.rank_copy_data(all, all, 4, ranks_); }),
              HasSubstr("there is no rank"));
}

}  // namespace
}  // namespace stretto::fabric
