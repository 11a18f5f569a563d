#include "processes.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "fabric/socket.h"

namespace stretto::fabric {
namespace {

struct Child {
  pid_t pid = -1;
  Socket reading;
};

Child start(int rank, const std::function<std::string(int)>& body) {
  int ends[2] = {-1, -1};
  if (pipe(ends) != 0) return {};
  const pid_t pid = fork();
  if (pid == 0) {
    close(ends[0]);
    std::string text;
    try {
      text = body(rank);
    } catch (const std::exception& error) {
      text = error.what();
    }
    [[maybe_unused]] const ssize_t written = write(ends[1], text.data(), text.size());
    _exit(0);
  }
  close(ends[1]);
  return {pid, Socket(ends[0])};
}

std::string wait_for(const Child& child, Deadline deadline) {
  std::string text;
  for (;;) {
    pollfd waiting{child.reading.fd(), POLLIN, 0};
    if (poll(&waiting, 1, left_ms(deadline)) <= 0) {
      kill(child.pid, SIGKILL);
      waitpid(child.pid, nullptr, 0);
      return "killed";
    }
    char buffer[4096];
    const ssize_t got = read(child.reading.fd(), buffer, sizeof(buffer));
    if (got <= 0) break;
    text.append(buffer, static_cast<size_t>(got));
  }
  int status = 0;
  waitpid(child.pid, &status, 0);
  return WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status)) : text;
}

}  // namespace

std::vector<std::string> on_processes(int count, const std::function<std::string(int)>& body,
                                      double timeout_s) {
  const Deadline deadline = after(timeout_s);
  std::vector<Child> children;
  for (int rank = 0; rank < count; ++rank) children.push_back(start(rank, body));
  std::vector<std::string> texts;
  for (const Child& child : children) texts.push_back(wait_for(child, deadline));
  return texts;
}

}  // namespace stretto::fabric
