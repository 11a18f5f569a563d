// Long work says how far it is: on a terminal, and nowhere else.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "cli/command.h"
#include "core/sampling.h"

namespace stretto {
namespace {

using testing::HasSubstr;

// Long enough for the first line, which comes after a third of a second.
std::vector<std::string> long_work() {
  return std::vector<std::string>{"run"} + small_operator() +
         std::vector<std::string>{"--seeds", all_or_sample("1200", "300")};
}

// What the command writes to a terminal that is its standard error.
std::string said_to_terminal(std::vector<std::string> arguments) {
  int terminal = -1, end_of_child = -1;
  if (::openpty(&terminal, &end_of_child, nullptr, nullptr, nullptr) != 0) return "no terminal";
  const pid_t child = ::fork();
  if (child == 0) {
    arguments.insert(arguments.begin(), STRETTO_BINARY);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    ::dup2(::open("/dev/null", O_WRONLY), STDOUT_FILENO);
    ::dup2(end_of_child, STDERR_FILENO);
    ::execv(STRETTO_BINARY, argv.data());
    ::_exit(127);
  }
  ::close(end_of_child);
  std::string said;
  char chunk[4096];
  for (ssize_t count; (count = ::read(terminal, chunk, sizeof chunk)) > 0;) {
    said.append(chunk, static_cast<size_t>(count));
  }
  ::close(terminal);
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  return said;
}

TEST(Progress, IsALineOnATerminalThatIsWipedInTheEnd) {
  const std::string said = said_to_terminal(long_work());
  if (said == "no terminal") GTEST_SKIP() << "this machine has no pseudo-terminals";
  EXPECT_THAT(said, HasSubstr("emulating tiles"));
  EXPECT_THAT(said, HasSubstr("%"));
  EXPECT_THAT(said, testing::EndsWith("\r\x1b[K"));
  EXPECT_THAT(said, testing::Not(HasSubstr("\n")));
}

// One plan and one step that says nothing before it is done.
TEST(Progress, SaysWhichStageIsAtWork) {
  const std::string said =
      said_to_terminal({"check", "gemm-rs", "--m", "16384", "--n", "16384", "--k", "64", "--ranks",
                        "8", "--schedule", "tiles,tile=64x64"});
  if (said == "no terminal") GTEST_SKIP() << "this machine has no pseudo-terminals";
  EXPECT_THAT(said, HasSubstr("checking schedule"));
}

TEST(Progress, IsSilentElsewhere) { EXPECT_EQ(stretto_says(long_work()).err, ""); }

}  // namespace
}  // namespace stretto
