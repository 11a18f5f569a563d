// Steps that outlive whoever waits for them.
#include "fabric/background_steps.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>

#include "stretto/error.h"

namespace stretto::fabric {
namespace {

// Of steps that own what they touch.
struct Shared {
  std::promise<void> gate;
  std::shared_future<void> opened = gate.get_future().share();
  std::atomic<int> done{0};
};

TEST(BackgroundSteps, AllRunAtOnce) {
  const auto shared = std::make_shared<Shared>();
  const auto steps = BackgroundSteps::start(3, [shared](int) {
    // Each waits for the others.
    ++shared->done;
    while (shared->done < 3) std::this_thread::yield();
  });
  EXPECT_TRUE(steps->ended_within(10));
  EXPECT_NO_THROW(steps->require_no_error());
}

TEST(BackgroundSteps, OneThatIsStuckIsWaitedForNoLongerAndEndsLater) {
  const auto shared = std::make_shared<Shared>();
  const auto steps = BackgroundSteps::start(2, [shared](int i) {
    if (i == 1) shared->opened.wait();
    ++shared->done;
  });
  const auto start = std::chrono::steady_clock::now();
  EXPECT_FALSE(steps->ended_within(0.05));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  EXPECT_LT(shared->done, 2);
  shared->gate.set_value();
  EXPECT_TRUE(steps->ended_within(10));
  EXPECT_EQ(shared->done, 2);
}

TEST(BackgroundSteps, AnErrorIsToldThoughAnotherIsStuck) {
  const auto shared = std::make_shared<Shared>();
  const auto steps = BackgroundSteps::start(2, [shared](int i) {
    if (i == 0) throw SystemError("no such GPU");
    shared->opened.wait();
  });
  EXPECT_FALSE(steps->ended_within(0.2));
  EXPECT_THROW(steps->require_no_error(), SystemError);
  shared->gate.set_value();
  EXPECT_TRUE(steps->ended_within(10));
}

}  // namespace
}  // namespace stretto::fabric
