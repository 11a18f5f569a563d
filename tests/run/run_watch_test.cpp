// How long the host waits for runs that do not end.
#include "run/run_watch.h"

#include <gtest/gtest.h>

#include <optional>

namespace stretto::runtime {
namespace {

using std::chrono::milliseconds;
using Verdict = RunWatch::Verdict;

constexpr auto kTimeout = milliseconds(100);
constexpr auto kStep = milliseconds(1);

class RunWatchTest : public testing::Test {
 protected:
  // Looks every millisecond until a verdict other than to wait; its time in ms, within `most`.
  std::optional<int> time_of(Verdict expected, RunWatch& watch, int most) {
    for (const auto end = now_ + milliseconds(most); now_ < end;) {
      now_ += kStep;
      if (progress_) seen_.begun = {++runs_};
      const Verdict verdict = watch.look(now_, seen_, [this] { return streams_wait_; });
      if (verdict == Verdict::wait) continue;
      EXPECT_EQ(verdict, expected);
      return static_cast<int>(std::chrono::duration_cast<milliseconds>(now_ - start_).count());
    }
    return std::nullopt;
  }
  RunWatch watch(const WaitKinds& kinds, bool others_wait = false) const {
    return {kinds, kTimeout, others_wait, start_};
  }

  const RunWatch::Time start_{};
  RunWatch::Time now_ = start_;
  RunWatch::Seen seen_;
  bool streams_wait_ = false, progress_ = false;
  uint64_t runs_ = 0;
};

constexpr WaitKinds kFused{.in_kernels = true}, kWaves{true, true, true};
constexpr WaitKinds kLibrary{.in_nccl = true}, kLowLatency{.in_kernels = true};

TEST_F(RunWatchTest, AStreamsWaitIsLetGoAtItsDeadline) {
  RunWatch watched = watch(kWaves);
  streams_wait_ = true;
  EXPECT_EQ(time_of(Verdict::release, watched, 1000), 121);
  EXPECT_FALSE(watched.releases_nccl());
  // What that did not help has a collective to wait for.
  EXPECT_EQ(time_of(Verdict::release, watched, 1000), 242);
  EXPECT_TRUE(watched.releases_nccl());
}

TEST_F(RunWatchTest, KernelsHaveAsLongAgainToSayWhoWaits) {
  RunWatch watched = watch(kFused);
  EXPECT_EQ(time_of(Verdict::release, watched, 1000), 221);
}

TEST_F(RunWatchTest, ACollectiveIsLetGoAtTheDeadline) {
  RunWatch watched = watch(kLibrary);
  EXPECT_EQ(time_of(Verdict::release, watched, 1000), 121);
  EXPECT_TRUE(watched.releases_nccl());
}

TEST_F(RunWatchTest, AFailureElsewhereIsNotWaitedFor) {
  for (const WaitKinds& kinds : {kFused, kWaves, kLibrary, kLowLatency}) {
    now_ = start_;
    seen_.is_aborted = true;
    RunWatch watched = watch(kinds);
    EXPECT_EQ(time_of(Verdict::release, watched, 1000), 1);
    // Once: what it did not let go has its time.
    EXPECT_EQ(time_of(Verdict::release, watched, 1000), 122);
  }
}

TEST_F(RunWatchTest, RunsThatBeginAreProgressHoweverManyThereAre) {
  progress_ = true;
  RunWatch watched = watch(kLibrary);
  EXPECT_EQ(time_of(Verdict::release, watched, 100'000), std::nullopt);
  progress_ = false;
  EXPECT_EQ(time_of(Verdict::release, watched, 1000), 100'000 + 121);
}

TEST_F(RunWatchTest, RunsThatNobodyCountsMayTakeLong) {
  seen_.is_counted = false;
  RunWatch watched = watch(kLibrary);
  EXPECT_EQ(time_of(Verdict::release, watched, 10'000), 30 * 100 + 21);
}

TEST_F(RunWatchTest, ButNotWhenAnotherRankHasEnded) {
  seen_.is_counted = false;
  RunWatch watched = watch(kLibrary);
  EXPECT_EQ(time_of(Verdict::release, watched, 2000), std::nullopt);
  seen_.some_ended = true;
  EXPECT_EQ(time_of(Verdict::release, watched, 1000), 2000 + 121);
}

// Waits of kernels end by themselves, on the GPU.
TEST_F(RunWatchTest, ARankThatHasEndedHurriesNoKernels) {
  seen_.is_counted = false;
  seen_.some_ended = true;
  RunWatch watched = watch(kLowLatency);
  EXPECT_EQ(time_of(Verdict::release, watched, 2900), std::nullopt);
}

TEST_F(RunWatchTest, ItGivesUpSoonerWhereOthersWaitToBeTold) {
  const auto releases = [&](const WaitKinds& kinds, bool others_wait) {
    seen_.is_aborted = true;
    RunWatch watched = watch(kinds, others_wait);
    for (int count = 0;; ++count) {
      now_ += milliseconds(200);
      if (watched.look(now_, seen_, [] { return false; }) == Verdict::give_up) return count;
    }
  };
  EXPECT_EQ(releases(kFused, true), 3);
  EXPECT_EQ(releases(kFused, false), 10);
  // Streams may be shut again by what is copied.
  EXPECT_EQ(releases(kWaves, true), 10);
  // Honest runs behind the one that failed are not seen.
  seen_.is_counted = false;
  EXPECT_EQ(releases(kLowLatency, true), 10);
}

}  // namespace
}  // namespace stretto::runtime
