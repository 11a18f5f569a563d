#include "core/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
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

bool write_all(int fd, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = ::write(fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    content.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

void write_in_place(const std::string& path, std::string_view content) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (file.get() < 0 || !write_all(file.get(), content) || !file.close()) fail("write", path);
}

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
  struct stat status {};
  const bool exists = ::stat(path.c_str(), &status) == 0;
  if (exists && !S_ISREG(status.st_mode)) return write_in_place(path, content);

  // Through links, so that a linked file is replaced where it lies and the link stays.
  std::string target = path;
  if (char* real = exists ? ::realpath(path.c_str(), nullptr) : nullptr) {
    target = real;
    std::free(real);
  }
  const std::string temporary = fmt::format("{}.{}.tmp", target, ::getpid());
  ::unlink(temporary.c_str());  // what a killed process of the same number left behind
  const mode_t mode = exists ? status.st_mode & 0777 : 0666;
  Descriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (file.get() < 0) fail("write", path);
  if (write_all(file.get(), content) && ::fsync(file.get()) == 0 && file.close() &&
      ::rename(temporary.c_str(), target.c_str()) == 0) {
    return;
  }
  const int error = errno;
  ::unlink(temporary.c_str());
  errno = error;
  fail("write", path);
}

}  // namespace stretto
