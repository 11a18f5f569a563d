// NCCL among all ranks and among teams of them, in one process.
#include <gtest/gtest.h>

#include <vector>

#include "fabric/fabric.h"
#include "fabric/nccl_api.h"
#include "gpu/host_copies.h"
#include "gpu_group.h"

namespace stretto::fabric {
namespace {

class CommunicatorsGpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    STRETTO_NEED_GPUS(2);
    if (!why_no_nccl().empty()) STRETTO_SKIP(why_no_nccl());
    ranks_ = cuda::num_devices() >= 4 ? 4 : 2;
    fabric_ = in_process(ranks_);
    for (int rank = 0; rank < ranks_; ++rank) {
      fabric_->device(rank).make_current();
      streams_.push_back(std::make_unique<cuda::Stream>());
      memory_.push_back(std::make_unique<cuda::DeviceMemory>(2 * sizeof(float)));
    }
  }
  void TearDown() override {
    for (size_t i = 0; i < streams_.size(); ++i) {
      fabric_->device(static_cast<int>(i)).make_current();
      streams_[i].reset();
      memory_[i].reset();
    }
  }

  // What each rank has of the sum of 2 to the rank over those of its team; 0: over all.
  std::vector<float> sums(const Communicators& nccl, int team) {
    as_one_operation([&] {
      for (int rank = 0; rank < ranks_; ++rank) {
        fabric_->device(rank).make_current();
        const auto own = static_cast<float>(1 << rank);
        const cuda::DevicePtr at = memory_[static_cast<size_t>(rank)]->address();
        cuda::copy_to_gpu(at, &own, sizeof(own));
        nccl.all_reduce({rank, team}, *streams_[static_cast<size_t>(rank)], at, at + sizeof(float),
                        1, DType::fp32);
      }
    });
    std::vector<float> found(static_cast<size_t>(ranks_));
    for (size_t rank = 0; rank < found.size(); ++rank) {
      fabric_->device(static_cast<int>(rank)).make_current();
      streams_[rank]->synchronize();
      cuda::copy_from_gpu(&found[rank], memory_[rank]->address() + sizeof(float), sizeof(float));
    }
    return found;
  }

  void expect_sums(const Communicators& nccl, int team) {
    std::vector<float> right;
    const int each = team == 0 ? ranks_ : team;
    for (int rank = 0; rank < ranks_; ++rank) {
      right.push_back(static_cast<float>(((1 << each) - 1) << rank / each * each));
    }
    EXPECT_EQ(sums(nccl, team), right) << "teams of " << each;
  }

  int ranks_ = 0;
  std::unique_ptr<Fabric> fabric_;
  std::vector<std::unique_ptr<cuda::Stream>> streams_;
  std::vector<std::unique_ptr<cuda::DeviceMemory>> memory_;
};

TEST_F(CommunicatorsGpuTest, AddUpWithinTeams) {
  Communicators& nccl = fabric_->communicators();
  for (const int team : {1, 2}) {
    if (team >= ranks_) continue;
    nccl.connect_teams(team, fabric_->group());
    nccl.connect_teams(team, fabric_->group());  // they are there
  }
  for (const int team : {0, 1, 2, 0}) {
    if (team < ranks_) expect_sums(nccl, team);
  }
}

TEST_F(CommunicatorsGpuTest, OfTeamsAreNewOnceTheyWereGivenUp) {
  Communicators& nccl = fabric_->communicators();
  nccl.connect_teams(1, fabric_->group());
  expect_sums(nccl, 1);
  nccl.abort();
  ASSERT_TRUE(nccl.renew(fabric_->group()));
  EXPECT_EQ(nccl.generation(), 1);
  expect_sums(nccl, 1);
  expect_sums(nccl, 0);
}

}  // namespace
}  // namespace stretto::fabric
