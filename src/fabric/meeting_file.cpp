#include "fabric/meeting_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "core/text.h"
#include "fabric/frame.h"
#include "fabric/tcp_group.h"
#include "stretto/error.h"

namespace stretto::fabric {
namespace {

constexpr std::string_view kFirstLine = "stretto meeting 1";
constexpr size_t kMaxFileBytes = 4096;

SystemError failed(const std::string& path, const char* what) {
  return SystemError(fmt::format("{}: cannot {}: {}", path, what, std::strerror(errno)));
}

// Throws unless the file or folder belongs to this user and nobody else may use it.
void require_private(const std::string& path, const struct stat& found) {
  if (found.st_uid != geteuid() || (found.st_mode & 077) != 0) {
    throw SystemError(fmt::format("{} must belong to this user and be closed to others", path));
  }
}

// The content of a small private file; nothing when there is none.
std::optional<std::string> read_private(const std::string& path) {
  const Socket file(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (!file) {
    if (errno == ENOENT) return std::nullopt;
    if (errno == ELOOP) throw SystemError(fmt::format("{} must not be a symbolic link", path));
    throw failed(path, "open");
  }
  struct stat found {};
  if (fstat(file.fd(), &found) != 0) throw failed(path, "inspect");
  if (!S_ISREG(found.st_mode)) throw SystemError(fmt::format("{} is no ordinary file", path));
  require_private(path, found);
  std::string content(kMaxFileBytes, '\0');
  const ssize_t got = read(file.fd(), content.data(), content.size());
  if (got < 0) throw failed(path, "read");
  content.resize(static_cast<size_t>(got));
  return content;
}

// FNV-1a.
uint64_t hash_of(std::string_view text) {
  uint64_t value = 0xcbf29ce484222325u;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return value;
}

}  // namespace

std::string new_secret() {
  unsigned char bytes[kSecretBytes / 2];
  if (getrandom(bytes, sizeof(bytes), 0) != static_cast<ssize_t>(sizeof(bytes))) {
    throw SystemError(fmt::format("no random numbers: {}", std::strerror(errno)));
  }
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

bool is_secret(std::string_view text) {
  return text.size() == kSecretBytes &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string secret_from_file(const std::string& path) {
  const auto content = read_private(path);
  if (!content) throw SystemError(fmt::format("{}: no such file", path));
  const std::string secret(split(*content, '\n')[0]);
  if (!is_secret(secret)) {
    throw UsageError(
        fmt::format("{} holds no job secret; {} hexadecimal digits are one", path, kSecretBytes));
  }
  return secret;
}

std::string meeting_path(const std::string& key) {
  std::string name;
  for (const char c : key) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       c == '-' || c == '.';
    name += plain ? c : '_';
  }
  constexpr size_t kMostBytes = 150;
  if (name != key || name.size() > kMostBytes) {  // other keys may look the same now
    if (name.size() > kMostBytes) name.resize(kMostBytes);
    name += fmt::format("_{:016x}", hash_of(key));
  }
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  struct stat found {};
  std::string folder;
  if (runtime != nullptr && runtime[0] == '/' && stat(runtime, &found) == 0 &&
      S_ISDIR(found.st_mode)) {
    folder = std::string(runtime) + "/stretto";
  } else {
    folder = fmt::format("/tmp/stretto-{}", geteuid());
  }
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) throw failed(folder, "make");
  if (lstat(folder.c_str(), &found) != 0) throw failed(folder, "inspect");
  if (!S_ISDIR(found.st_mode)) throw SystemError(fmt::format("{} is no folder", folder));
  require_private(folder, found);
  return folder + "/job-" + name;
}

void write_meeting(const std::string& path, const Meeting& meeting) {
  const std::string content =
      fmt::format("{}\n{}\n{}\n", kFirstLine, to_string(meeting.address), meeting.secret);
  const std::string temporary = fmt::format("{}.{}", path, getpid());
  unlink(temporary.c_str());
  {
    const Socket file(
        open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file) throw failed(temporary, "make");
    if (write(file.fd(), content.data(), content.size()) != static_cast<ssize_t>(content.size())) {
      unlink(temporary.c_str());
      throw failed(temporary, "write");
    }
  }
  if (rename(temporary.c_str(), path.c_str()) != 0) {
    const SystemError error = failed(path, "place");
    unlink(temporary.c_str());
    throw error;
  }
}

std::optional<Meeting> read_meeting(const std::string& path) {
  const auto content = read_private(path);
  if (!content) return std::nullopt;
  const auto lines = split(*content, '\n');
  if (lines.size() != 4 || lines[0] != kFirstLine || !is_secret(lines[2]) || !lines[3].empty()) {
    throw NotThisJob(fmt::format("{} is no meeting file of this version", path));
  }
  try {
    return Meeting{address_from(lines[1]), std::string(lines[2])};
  } catch (const UsageError& error) {
    throw NotThisJob(fmt::format("{}: {}", path, error.what()));
  }
}

}  // namespace stretto::fabric
