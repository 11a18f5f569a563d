// Threads that begin together or not at all.
#include "run/rank_threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>

#include "stretto/error.h"

namespace stretto::runtime {
namespace {

constexpr int kThreads = 4;

TEST(RankThreads, WorkOnceAllHaveBegun) {
  std::barrier together(kThreads);
  std::atomic<int> begun = 0, worked = 0;
  on_threads(
      kThreads, [&](int) { ++begun; },
      [&](int i) {
        EXPECT_EQ(begun, kThreads);
        together.arrive_and_wait();
        worked += 1 << i;
      });
  EXPECT_EQ(worked, (1 << kThreads) - 1);
}

// Work that waits for the others' would wait for ever.
TEST(RankThreads, DoNothingWhereOneCannotBegin) {
  std::barrier together(kThreads);
  std::atomic<int> worked = 0;
  std::string failure;
  try {
    on_threads(
        kThreads,
        [](int i) {
          if (i >= 2) throw SystemError("no GPU " + std::to_string(i));
        },
        [&](int) {
          together.arrive_and_wait();
          ++worked;
        });
  } catch (const SystemError& error) {
    failure = error.what();
  }
  EXPECT_EQ(failure, "no GPU 2");
  EXPECT_EQ(worked, 0);
}

TEST(RankThreads, SayWhatTheFirstThatFailedSays) {
  std::atomic<int> ended = 0;
  try {
    on_threads(
        kThreads, [](int) {},
        [&](int i) {
          ++ended;
          if (i % 2 == 1) throw SystemError("rank " + std::to_string(i));
        });
    FAIL() << "two of them fail";
  } catch (const SystemError& error) {
    EXPECT_STREQ(error.what(), "rank 1");
  }
  EXPECT_EQ(ended, kThreads);
}

}  // namespace
}  // namespace stretto::runtime
