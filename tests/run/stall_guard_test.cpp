#include "stall_guard.h"

#include <gtest/gtest.h>

namespace stretto {
namespace {

using std::chrono::milliseconds;

void stall() {
  StallGuard guard(milliseconds(100));
  guard.at("a step that is quick");
  guard.at("one that is not");
  std::this_thread::sleep_for(std::chrono::seconds(20));
}

TEST(StallGuard, EndsWhatHangsAndSaysWhere) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(stall(), testing::KilledBySignal(SIGABRT), "hangs: 100 ms at: one that is not");
}

// However long they take together.
TEST(StallGuard, LetsStepsGoOn) {
  StallGuard guard(milliseconds(1000));
  for (int i = 0; i < 6; ++i) {
    guard.at("step " + std::to_string(i));
    std::this_thread::sleep_for(milliseconds(250));
  }
}

}  // namespace
}  // namespace stretto
