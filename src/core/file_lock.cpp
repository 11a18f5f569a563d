#include "core/file_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <thread>

#include "core/text.h"
#include "stretto/error.h"

namespace stretto {
namespace {

// Beside the file itself, so that all links to it have one.
std::string lock_path(const std::string& path) {
  std::error_code error;
  const std::filesystem::path real = std::filesystem::weakly_canonical(path, error);
  return (error ? path : real.string()) + ".lock";
}

}  // namespace

FileLock::FileLock(const std::string& path, std::chrono::milliseconds most) {
  const std::string at = lock_path(path);
  fd_ = ::open(at.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd_ < 0) {
    throw SystemError(fmt::format("cannot lock '{}' with '{}': {}", shortened(path), shortened(at),
                                  strerror(errno)));
  }
  const auto end = std::chrono::steady_clock::now() + most;
  while (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    if (error == EINTR) continue;
    const bool is_held = error == EWOULDBLOCK;
    if (is_held && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      continue;
    }
    ::close(fd_);
    throw SystemError(
        is_held ? fmt::format("cannot lock '{}': another process has held '{}' for {:.1f} s",
                              shortened(path), shortened(at),
                              std::chrono::duration<double>(most).count())
                : fmt::format("cannot lock '{}' with '{}': {}", shortened(path), shortened(at),
                              strerror(error)));
  }
}

FileLock::~FileLock() { ::close(fd_); }

}  // namespace stretto
