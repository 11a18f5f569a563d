#include "core/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <string>

#include "stretto/error.h"

namespace stretto {
namespace {

[[noreturn]] void fail(std::string_view doing, const std::string& path) {
  const int error = errno;
  throw SystemError(fmt::format("cannot {} '{}': {}", doing, path, std::strerror(error)));
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const { return fd_; }
  // Closing can report a failed write, so the good path asks for its answer.
  bool close() {
    const int fd = fd_;
    fd_ = -1;
    return ::close(fd) == 0;
  }

 private:
  int fd_;
};

// A file that grows beyond the process's limit is a write that fails, like one on a full disk, and
// not the end of a program that has this library in it. The signal of it is the writing thread's.
class NoFileSizeSignal {
 public:
  NoFileSizeSignal() {
    sigset_t pending;
    ::sigpending(&pending);
    was_pending_ = ::sigismember(&pending, SIGXFSZ) == 1;
    ::sigemptyset(&signal_);
    ::sigaddset(&signal_, SIGXFSZ);
    ::pthread_sigmask(SIG_BLOCK, &signal_, &before_);
  }
  ~NoFileSizeSignal() {
    const timespec at_once{};
    if (!was_pending_) ::sigtimedwait(&signal_, nullptr, &at_once);
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoFileSizeSignal(const NoFileSizeSignal&) = delete;
  NoFileSizeSignal& operator=(const NoFileSizeSignal&) = delete;

 private:
  sigset_t signal_{}, before_{};
  bool was_pending_ = false;
};

bool write_all(int fd, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = ::write(fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    content.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

// Not by the number of the process: threads have it in common, and so may containers that share the
// folder.
std::string temporary_beside(const std::string& path) {
  uint64_t number = 0;
  if (::getentropy(&number, sizeof(number)) != 0) fail("write", path);
  return fmt::format("{}.{:016x}.tmp", path, number);
}

// What happens to a link, device or pipe that has the file's name.
enum class Special { written_through, replaced };

// New content that takes the place of a file when it is complete, or leaves no trace.
class Replacement {
 public:
  explicit Replacement(const std::string& path, Special special = Special::written_through)
      : path_(path), target_(path), file_(open_beside(path, special)) {}
  ~Replacement() {
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
  }
  Replacement(const Replacement&) = delete;
  Replacement& operator=(const Replacement&) = delete;

  void write(std::string_view content) {
    int error = 0;
    {
      const NoFileSizeSignal quiet;
      if (!write_all(file_.get(), content)) error = errno;
    }
    if (error == 0) return;
    errno = error;
    fail("write", path_);
  }

  void commit() {
    if (temporary_.empty()) {
      if (!file_.close()) fail("write", path_);
      return;
    }
    if (::fsync(file_.get()) != 0 || !file_.close() ||
        ::rename(temporary_.c_str(), target_.c_str()) != 0) {
      fail("write", path_);
    }
    temporary_.clear();
  }

 private:
  int open_beside(const std::string& path, Special special) {
    struct stat status {};
    const bool through = special == Special::written_through;
    const bool exists = through && ::stat(path.c_str(), &status) == 0;
    int fd = -1;
    if (exists && !S_ISREG(status.st_mode)) {  // devices and pipes have no "beside"
      fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    } else {
      // Through links, so that a linked file is replaced where it lies and the link stays.
      if (char* real = exists ? ::realpath(path.c_str(), nullptr) : nullptr) {
        target_ = real;
        std::free(real);
      }
      temporary_ = temporary_beside(target_);
      const mode_t mode = exists ? status.st_mode & 0777 : 0666;
      fd = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    }
    if (fd < 0) fail("write", path);
    return fd;
  }

  std::string path_;
  std::string target_;
  std::string temporary_;  // empty: written in place, or already renamed
  Descriptor file_;
};

}  // namespace

std::string read_file(const std::string& path, size_t max_bytes) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) fail("read", path);
  std::string content;
  char chunk[1 << 16];
  while (true) {
    const ssize_t count = ::read(file.get(), chunk, sizeof chunk);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("read", path);
    if (count == 0) return content;
    content.append(chunk, static_cast<size_t>(count));
    if (content.size() > max_bytes) {
      throw UsageError(
          fmt::format("'{}' is too large: more than {} bytes are not read", path, max_bytes));
    }
  }
}

void write_file(const std::string& path, std::string_view content) {
  Replacement file(path);
  file.write(content);
  file.commit();
}

void write_own_file(const std::string& path, std::string_view content) {
  Replacement file(path, Special::replaced);
  file.write(content);
  file.commit();
}

void check_writable(const std::string& path) { Replacement probe(path); }

bool is_same_file(const std::string& a, const std::string& b) {
  std::error_code error;
  if (const auto there = std::filesystem::status(a, error);
      std::filesystem::exists(there) && !std::filesystem::is_regular_file(there)) {
    return false;
  }
  if (a == b) return true;
  const auto real_a = std::filesystem::weakly_canonical(std::filesystem::absolute(a, error), error);
  if (error) return false;
  const auto real_b = std::filesystem::weakly_canonical(std::filesystem::absolute(b, error), error);
  return !error && real_a == real_b;
}

}  // namespace stretto
