// Programs that the command waits for, where a signal ends it.
#include "cli/child.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <csignal>
#include <cstdlib>

#include "cli/command.h"
#include "stretto/error.h"

namespace stretto::cli {
namespace {

// Of programs that are refused since a signal has come; a few bytes are the library's own.
[[noreturn]] void end_with_whether_memory_is_kept(const std::string& said) {
  constexpr int kTimes = 1000;
  Child child;
  raise(SIGTERM);
  size_t before = 0;
  for (int i = 0; i <= kTimes; ++i) {
    if (i == 1) before = mallinfo2().uordblks;
    try {
      child.run({"true"}, said);
      std::abort();
    } catch (const SystemError&) {
    }
  }
  const bool keeps = mallinfo2().uordblks > before + 100 * kTimes;
  std::_Exit(keeps ? 1 : 0);
}

TEST(Child, IsNotStartedAfterASignalAndLeavesNoMemory) {
  const ScratchFolder folder;
  EXPECT_EXIT(end_with_whether_memory_is_kept(folder.path("said")), testing::ExitedWithCode(0), "");
}

TEST(Child, EndsTheCommandByTheSignalThatCame) {
  EXPECT_EXIT(
      {
        const Child child;
        raise(SIGTERM);
      },
      testing::KilledBySignal(SIGTERM), "");
}

}  // namespace
}  // namespace stretto::cli
