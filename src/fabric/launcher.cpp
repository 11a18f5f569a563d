#include "fabric/launcher.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "fabric/meeting_file.h"
#include "fabric/socket.h"
#include "stretto/error.h"

namespace stretto::fabric {
namespace {

// For the others to see that one is gone, say so, and end by themselves; then for a last farewell.
constexpr double kGraceS = 5, kFarewellS = 3;

// A rank's process and what it starts, a process group: a wrapper in a shell language may end
// before the program that it has started, which then still holds its GPU.
struct Child {
  pid_t pid;
  bool running = true;   // the rank's process itself
  bool has_left = true;  // processes
};

// What lost its parent becomes this process's child, so that it can be waited for.
class Adoption {
 public:
  Adoption() {
    prctl(PR_GET_CHILD_SUBREAPER, &before_);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
  }
  ~Adoption() { prctl(PR_SET_CHILD_SUBREAPER, before_); }
  Adoption(const Adoption&) = delete;
  Adoption& operator=(const Adoption&) = delete;

 private:
  int before_ = 0;
};

// Signals that this process waits for instead of being interrupted by.
class WaitedSignals {
 public:
  WaitedSignals() {
    sigemptyset(&set_);
    for (const int signal : {SIGCHLD, SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGTSTP}) {
      sigaddset(&set_, signal);
    }
    pthread_sigmask(SIG_BLOCK, &set_, &before_);
    // Who started this process may have it ignored, and then no child could be waited for.
    struct sigaction usual {};
    usual.sa_handler = SIG_DFL;
    sigaction(SIGCHLD, &usual, &child_before_);
  }
  ~WaitedSignals() { restore(); }
  WaitedSignals(const WaitedSignals&) = delete;
  WaitedSignals& operator=(const WaitedSignals&) = delete;

  // The next signal; 0 when none came within the time.
  int next(double seconds) const {
    const timespec patience{static_cast<time_t>(seconds),
                            static_cast<long>((seconds - static_cast<time_t>(seconds)) * 1e9)};
    const int signal = sigtimedwait(&set_, nullptr, &patience);
    return signal < 0 ? 0 : signal;
  }
  // This process stops as if it had never waited for the signal, and returns when it is continued.
  static void stop() {
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, SIGTSTP);
    raise(SIGTSTP);
    pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
    pthread_sigmask(SIG_BLOCK, &one, nullptr);
  }
  // As they were before, for a child too.
  void restore() const {
    sigaction(SIGCHLD, &child_before_, nullptr);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t set_{}, before_{};
  struct sigaction child_before_ {};
};

[[noreturn]] void become(const std::vector<std::string>& command, int rank, int ranks,
                         const std::string& job, const WaitedSignals& signals, int report) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  setsid();  // so what a terminal's keys send comes once, from the launcher
  signals.restore();
  setenv("STRETTO_RANK", std::to_string(rank).c_str(), 1);
  setenv("STRETTO_LOCAL_RANK", std::to_string(rank).c_str(), 1);
  setenv("STRETTO_RANKS", std::to_string(ranks).c_str(), 1);
  setenv("STRETTO_JOB", job.c_str(), 1);
  std::vector<char*> arguments;
  for (const std::string& argument : command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  const int error = errno;
  [[maybe_unused]] const ssize_t written = write(report, &error, sizeof(error));
  _exit(127);
}

class Children {
 public:
  ~Children() {
    for (const Child& child : list_) {
      if (!child.running) continue;
      kill(-child.pid, SIGKILL);
      waitpid(child.pid, nullptr, 0);
    }
  }
  void add(pid_t pid) { list_.push_back({pid}); }
  void signal_all(int signal) const {
    for (const Child& child : list_) {
      if (child.has_left) kill(-child.pid, signal);
    }
  }
  // Calls ended(rank, child, status) for those that have.
  template <typename Ended>
  void reap(const Ended& ended) {
    for (size_t rank = 0; rank < list_.size(); ++rank) {
      Child& child = list_[rank];
      int status = 0;
      if (child.running && waitpid(child.pid, &status, WNOHANG) == child.pid) {
        child.running = false;
        const int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
        if (code_ == 0) code_ = code;
        ended(rank, child, status);
      }
      // Its number stays the group's while that has processes, and is nobody else's till then.
      pid_t found = child.running || !child.has_left ? 0 : waitpid(-child.pid, nullptr, WNOHANG);
      while (found > 0) found = waitpid(-child.pid, nullptr, WNOHANG);
      if (found < 0) child.has_left = false;
    }
  }
  bool any_runs() const {
    return std::any_of(list_.begin(), list_.end(), [](const Child& one) { return one.running; });
  }
  bool any_left() const {
    return std::any_of(list_.begin(), list_.end(), [](const Child& one) { return one.has_left; });
  }
  int code() const { return code_; }

 private:
  std::vector<Child> list_;
  int code_ = 0;  // of the first that failed
};

// The reason why a child could not become the command, read from the end that exec closes.
void require_started(const Socket& report, const std::string& command) {
  int error = 0;
  if (read(report.fd(), &error, sizeof(error)) != static_cast<ssize_t>(sizeof(error))) return;
  throw UsageError(fmt::format("cannot run {}: {}", command, std::strerror(error)));
}

}  // namespace

int launch(int ranks, const std::vector<std::string>& command,
           const std::function<void(const std::string& line)>& tell) {
  STRETTO_ASSERT(ranks > 0 && !command.empty(), "there is something to launch");
  const std::string job = new_secret().substr(0, 16);
  const WaitedSignals signals;
  const Adoption adoption;
  Children children;
  for (int rank = 0; rank < ranks; ++rank) {
    int ends[2] = {-1, -1};
    if (pipe2(ends, O_CLOEXEC) != 0) {
      throw SystemError(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
    }
    const Socket reading(ends[0]);
    Socket writing(ends[1]);
    const pid_t pid = fork();
    if (pid < 0) {
      throw SystemError(
          fmt::format("cannot start a process for rank {}: {}", rank, std::strerror(errno)));
    }
    if (pid == 0) become(command, rank, ranks, job, signals, writing.fd());
    children.add(pid);
    writing = {};
    require_started(reading, command[0]);
  }

  int asked = 0;  // by which signal this process was asked to end
  int stage = 0;  // 0: running, 1: grace, 2: farewell
  Deadline deadline = Deadline::max();
  const auto tell_of_signals = [&](size_t rank, const Child& child, int status) {
    if (!tell || asked != 0 || stage == 2 || !WIFSIGNALED(status)) return;
    tell(fmt::format("the process of rank {} (pid {}) was ended by signal {} ({})", rank, child.pid,
                     WTERMSIG(status), strsignal(WTERMSIG(status))));
  };
  const auto has_failed = [&] { return asked != 0 || children.code() != 0; };
  // What the ranks of a good job leave running is their own affair.
  while (children.any_runs() || (has_failed() && children.any_left())) {
    const int signal = signals.next(stage == 0 ? 3600 : left_ms(deadline) / 1000.0);
    if (signal == SIGTSTP) {
      children.signal_all(SIGSTOP);
      WaitedSignals::stop();
      children.signal_all(SIGCONT);
    } else if (signal != 0 && signal != SIGCHLD) {
      asked = signal;
      children.signal_all(signal);
    }
    children.reap(tell_of_signals);
    if (stage == 0 && has_failed()) {
      stage = 1;
      deadline = after(kGraceS);
    }
    if (stage == 1 && (left_ms(deadline) == 0 || !children.any_runs())) {
      children.signal_all(SIGTERM);
      stage = 2;
      deadline = after(kFarewellS);
    } else if (stage == 2 && left_ms(deadline) == 0) {
      children.signal_all(SIGKILL);
      deadline = after(kFarewellS);
    }
  }
  return asked != 0 ? 128 + asked : children.code();
}

}  // namespace stretto::fabric
