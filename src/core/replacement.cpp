#include "core/replacement.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <filesystem>

#include "core/file_error.h"

namespace stretto {
namespace {

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

// Between two system calls that belong together, of this thread.
class NoSignals {
 public:
  NoSignals() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~NoSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t before_{};
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
  if (::getentropy(&number, sizeof(number)) != 0) fail_at("write", path);
  return fmt::format("{}.{:016x}.tmp", path, number);
}

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

// The name by which nameless content is linked; without /proc it cannot be.
std::string link_of(int fd) { return fmt::format("/proc/self/fd/{}", fd); }

}  // namespace

Replacement::Replacement(const std::string& path, Special special)
    : path_(path), target_(path), file_(open_beside(special)) {}

Replacement::~Replacement() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

int Replacement::open_beside(Special special) {
  struct stat status {};
  const bool is_there = ::stat(path_.c_str(), &status) == 0;
  // Content without a name would learn of that only when it gets one.
  if (!is_there && errno == ENAMETOOLONG) fail_at("write", path_);
  const bool exists = is_there && special == Special::written_through;
  int fd = -1;
  if (exists && !S_ISREG(status.st_mode)) {  // devices and pipes have no "beside"
    fd = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd < 0) fail_at("write", path_);
    return fd;
  }
  // Through links, so that a linked file is replaced where it lies and the link stays.
  if (char* real = exists ? ::realpath(path_.c_str(), nullptr) : nullptr) {
    target_ = real;
    std::free(real);
  }
  const mode_t mode = exists ? status.st_mode & 0777 : 0666;
  folder_ = folder_of(target_);
  fd = ::open(folder_.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, mode);
  if (fd >= 0 && ::access(link_of(fd).c_str(), F_OK) == 0) return fd;
  if (fd >= 0) ::close(fd);
  // A file system without such files, or nothing to link them by.
  folder_.clear();
  temporary_ = temporary_beside(target_);
  fd = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (fd < 0) {
    temporary_.clear();
    fail_at("write", path_);
  }
  return fd;
}

void Replacement::write(std::string_view content) {
  int error = 0;
  {
    const NoFileSizeSignal quiet;
    if (!write_all(file_.get(), content)) error = errno;
  }
  if (error == 0) return;
  errno = error;
  fail_at("write", path_);
}

bool Replacement::name_it() {
  const std::string nameless = link_of(file_.get());
  const auto link = [&](const std::string& name) {
    return ::linkat(AT_FDCWD, nameless.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0;
  };
  if (link(target_)) return true;
  if (errno != EEXIST) return false;
  const std::string beside = temporary_beside(target_);
  const NoSignals between;
  if (!link(beside)) return false;
  temporary_ = beside;
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) return false;
  temporary_.clear();
  return true;
}

void Replacement::commit() {
  if (folder_.empty() && temporary_.empty()) {
    if (!file_.close()) fail_at("write", path_);
    return;
  }
  if (::fsync(file_.get()) != 0) fail_at("write", path_);
  if (!folder_.empty()) {
    if (!name_it() || !file_.close()) fail_at("write", path_);
    return;
  }
  if (!file_.close() || ::rename(temporary_.c_str(), target_.c_str()) != 0) {
    fail_at("write", path_);
  }
  temporary_.clear();
}

}  // namespace stretto
