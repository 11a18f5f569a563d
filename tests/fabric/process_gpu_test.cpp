// One process a GPU: this binary starts itself once a rank, and each rank is a test of RankGpuTest.
#include <gmock/gmock.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "fabric/job.h"
#include "fabric/launcher.h"
#include "fabric/run_state.h"
#include "gpu/compiler.h"
#include "gpu/nvrtc_api.h"
#include "gpu_group.h"
#include "stretto/error.h"

namespace stretto::fabric {
namespace {

using cuda::check;
using cuda::driver;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

int launch_ranks(Source source, const std::string& test) {
  return launch(
      2, {"/usr/bin/env", "STRETTO_TEST_SOURCE=" + std::string(name_of(source)),
          "/proc/" + std::to_string(getpid()) + "/exe", "--gtest_filter=RankGpuTest." + test});
}

class ProcessGpuTest : public ::testing::TestWithParam<Source> {
 protected:
  void SetUp() override {
    STRETTO_NEED_GPUS(2);
    if (!cuda::why_no_compiler().empty()) STRETTO_SKIP(cuda::why_no_compiler());
    if (GetParam() == Source::windows && !why_no_windows().empty()) STRETTO_SKIP(why_no_windows());
  }
};

TEST_P(ProcessGpuTest, RanksReachEachOthersMemory) {
  EXPECT_EQ(launch_ranks(GetParam(), "WritesToItsPeer"), 0);
}
TEST_P(ProcessGpuTest, AnExpiredWaitIsKnownToAllAndTheFabricGoesOn) {
  EXPECT_EQ(launch_ranks(GetParam(), "WaitsInVain"), 0);
}
TEST_P(ProcessGpuTest, RanksAreToldWhateverTheirProcessDoes) {
  EXPECT_EQ(launch_ranks(GetParam(), "IsToldByItsPeer"), 0);
}
TEST_P(ProcessGpuTest, ADeadProcessIsNamed) {
  EXPECT_EQ(launch_ranks(GetParam(), "LosesItsPeer"), 128 + SIGKILL);
}
TEST_P(ProcessGpuTest, OutOfMemoryOnOneIsKnownToAll) {
  EXPECT_EQ(launch_ranks(GetParam(), "AsksForTooMuch"), 0);
}

INSTANTIATE_TEST_SUITE_P(Sources, ProcessGpuTest,
                         ::testing::Values(Source::windows, Source::exported),
                         [](const auto& tested) { return std::string(name_of(tested.param)); });

class RankGpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* source = std::getenv("STRETTO_TEST_SOURCE");
    if (source == nullptr) GTEST_SKIP() << "a part of ProcessGpuTest";
    fabric_ = open_fabric(2, source_from(source));
    rank_ = fabric_->first_rank();
  }
  std::unique_ptr<Fabric> fabric_;
  int rank_ = 0;
};

TEST_F(RankGpuTest, WritesToItsPeer) {
  const Region region = fabric_->allocate(1 << 20, "marks");
  const int mark = 40 + rank_;
  cuda::copy_to_gpu(region.address(1 - rank_, rank_) + 4096, &mark, sizeof(mark));
  fabric_->barrier();
  int seen = 0;
  cuda::copy_from_gpu(&seen, region.local(rank_) + 4096, sizeof(seen));
  EXPECT_EQ(seen, 40 + (1 - rank_));
  fabric_->barrier();
}

constexpr const char* kWaitSource = R"(#include "stretto/device/signal.h"
using namespace stretto::device;
extern "C" __global__ void wait(const __grid_constant__ SignalSpace space) {
  wait_signal(space, 0, {5, 5, 1, 0, 1, 0, 0}, 3, 9);
}
extern "C" __global__ void notify(const __grid_constant__ SignalSpace space) {
  for (uint32 rank = 0; rank < space.ranks; ++rank) {
    const NotifyEntry entry{5, 1, 0, 1, static_cast<uint16>(rank), 0};
    notify_signals(space, 0, &entry, 1);
  }
}
)";

TEST_F(RankGpuTest, WaitsInVain) {
  const cuda::Compiler compiler;
  const std::string cubin = compiler.compile(kWaitSource, fabric_->device(rank_).arch()).cubin;
  const cuda::Kernel wait(cubin, "wait", 0), notify(cubin, "notify", 0);
  const cuda::Stream stream;
  RunState state(*fabric_, 2, 100'000'000, "signals");
  const device::SignalSpace space = state.space(rank_);
  if (rank_ == 1) wait.launch(stream, 1, 1, 1, &space);
  stream.synchronize();
  const RunOutcome outcome = state.collect();
  EXPECT_TRUE(outcome.aborted);
  ASSERT_EQ(outcome.expired.size(), 1u);
  EXPECT_EQ(outcome.expired[0].rank, 1);
  EXPECT_EQ(outcome.expired[0].error.lane, 3u);
  EXPECT_EQ(outcome.expired[0].error.tile, 9u);
  EXPECT_EQ(outcome.expired[0].error.signal, 1u);
  EXPECT_EQ(outcome.expired[0].error.expected, 5u);
  EXPECT_EQ(outcome.expired[0].error.seen, 0u);

  state.reset();
  if (rank_ == 0) notify.launch(stream, 1, 1, 1, &space);
  wait.launch(stream, 1, 1, 1, &space);
  stream.synchronize();
  EXPECT_FALSE(state.collect().aborted);
}

TEST_F(RankGpuTest, IsToldByItsPeer) {
  RunState state(*fabric_, 2, 100'000'000, "signals");
  EXPECT_FALSE(state.is_aborted());
  fabric_->barrier();
  if (rank_ == 0) {
    state.tell_end(0, 3);
    state.abort();
  }
  fabric_->barrier();
  EXPECT_TRUE(state.is_aborted());
  EXPECT_THAT(state.own_expired(), IsEmpty());
  EXPECT_THAT(state.ends(), ElementsAre(3, 0));
  fabric_->barrier();
  state.reset();
  EXPECT_FALSE(state.is_aborted());
  EXPECT_THAT(state.ends(), ElementsAre(0, 0));
}

TEST_F(RankGpuTest, LosesItsPeer) {
  const Region region = fabric_->allocate(1 << 20, "marks");
  if (rank_ == 1) kill(getpid(), SIGKILL);
  try {
    fabric_->barrier();
    FAIL() << "met the dead";
  } catch (const SystemError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("the process of rank 1 (pid "), HasSubstr("ended")));
  }
  // What the dead has left is still there.
  int seen = 0;
  cuda::copy_from_gpu(&seen, region.address(1, rank_), sizeof(seen));
}

TEST_F(RankGpuTest, AsksForTooMuch) {
  EXPECT_THROW(fabric_->allocate(size_t{1} << 42, "too much"), SystemError);
  EXPECT_NE(fabric_->allocate(1 << 20, "enough").local(rank_), 0u);
}

}  // namespace
}  // namespace stretto::fabric
