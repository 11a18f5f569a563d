#include "core/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "core/descriptor.h"
#include "core/file_error.h"
#include "core/replacement.h"
#include "core/text.h"
#include "stretto/error.h"

namespace stretto {
namespace {

std::string read_all(const Descriptor& file, const std::string& path, size_t max_bytes) {
  std::string content;
  char chunk[1 << 16];
  while (true) {
    const ssize_t count = ::read(file.get(), chunk, sizeof chunk);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_at("read", path);
    if (count == 0) return content;
    content.append(chunk, static_cast<size_t>(count));
    if (content.size() > max_bytes) {
      throw UsageError(fmt::format("'{}' is too large: more than {} bytes are not read",
                                   shortened(path), max_bytes));
    }
  }
}

// Whether reading it may never end, as of /dev/zero. A terminal's input ends, and /dev/null is
// empty.
bool is_endless(const Descriptor& file) {
  struct stat status {
  }, null{};
  if (::fstat(file.get(), &status) != 0 || !S_ISCHR(status.st_mode)) return false;
  if (::stat("/dev/null", &null) == 0 && null.st_rdev == status.st_rdev) return false;
  return ::isatty(file.get()) == 0;
}

}  // namespace

std::string read_file(const std::string& path, size_t max_bytes) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) fail_at("read", path);
  if (is_endless(file)) {
    throw UsageError(fmt::format("'{}' is a device; a file is needed", shortened(path)));
  }
  return read_all(file, path, max_bytes);
}

std::string read_regular_file(const std::string& path, size_t max_bytes) {
  // A pipe that nobody writes would keep waiting whoever opens it.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0) fail_at("read", path);
  if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) {
    throw UsageError(fmt::format("'{}' is a pipe or a device; a file is needed", shortened(path)));
  }
  return read_all(file, path, max_bytes);
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

void check_writable(const std::string& path) { const Replacement probe(path); }

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
