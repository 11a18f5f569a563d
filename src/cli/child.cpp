#include "cli/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "stretto/error.h"

extern char** environ;

namespace stretto::cli {
namespace {

std::atomic<pid_t> running = 0;  // the program, with a group of its own; 0: none
std::atomic<int> come = 0;       // the first signal; 0: none

void end_program() {
  if (const pid_t group = running.load(); group > 0) kill(-group, SIGTERM);
}

void end_by(int signal) {
  int none = 0;
  come.compare_exchange_strong(none, signal);
  end_program();
}

void refuse_if_come() {
  if (come.load() != 0) throw SystemError("ended by a signal");
}

// What the program is started with.
struct Start {
  explicit Start(const std::string& said) {
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, said.c_str(),
                                     O_CREAT | O_WRONLY | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setpgroup(&attributes, 0);
  }
  ~Start() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
  Start(const Start&) = delete;
  Start& operator=(const Start&) = delete;

  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
};

}  // namespace

Child::Child() {
  come = 0;
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    struct sigaction action = {};
    action.sa_handler = end_by;
    sigaction(kSignals[i], nullptr, &before_[i]);
    if (before_[i].sa_handler == SIG_DFL) sigaction(kSignals[i], &action, nullptr);
  }
}

Child::~Child() {
  for (size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &before_[i], nullptr);
  if (const int signal = come.exchange(0); signal != 0) raise(signal);
}

int Child::run(const std::vector<std::string>& words, const std::string& said) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const Start start(said);
  refuse_if_come();
  pid_t child = 0;
  const int failed = posix_spawnp(&child, arguments[0], &start.actions, &start.attributes,
                                  arguments.data(), environ);
  if (failed == ENOENT || failed == EACCES) return -1;
  if (failed != 0) {
    throw SystemError(fmt::format("cannot start {}: {}", words[0], std::strerror(failed)));
  }
  running = child;
  if (come.load() != 0) end_program();  // came before it was known whom to end
  int status = 0, waited = 0;
  while ((waited = waitpid(child, &status, 0)) < 0 && errno == EINTR) {
  }
  running = 0;
  refuse_if_come();
  if (waited < 0) {
    throw SystemError(fmt::format("cannot wait for {}: {}", words[0], std::strerror(errno)));
  }
  return status;
}

}  // namespace stretto::cli
