// stretto launch: one process a rank, one exit status.
#include <gmock/gmock.h>

#include <algorithm>

#include "cli/command.h"

namespace stretto {
namespace {

using ::testing::HasSubstr;

TEST(CliLaunch, RunsACommandOnceARank) {
  const Said result =
      stretto_says({"launch", "-n", "3", "--", "/bin/sh", "-c", "echo $STRETTO_RANK"});
  EXPECT_EQ(result.exit_code, 0);
  for (const char* rank : {"0\n", "1\n", "2\n"}) EXPECT_THAT(result.out, HasSubstr(rank));
}

TEST(CliLaunch, ReturnsWhatTheFirstFailureReturned) {
  EXPECT_EQ(stretto_says({"launch", "-n", "2", "--", "/bin/sh", "-c", "exit 42"}).exit_code, 42);
}

TEST(CliLaunch, BadUsageIsOneLine) {
  for (const auto& line :
       std::vector<std::vector<std::string>>{{"launch"},
                                             {"launch", "-n", "2"},
                                             {"launch", "-n", "0", "--", "true"},
                                             {"launch", "-n", "two", "--", "true"},
                                             {"launch", "-n", "2", "--", "/no/such/command"}}) {
    const Said result = stretto_says(line);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }
}

}  // namespace
}  // namespace stretto
