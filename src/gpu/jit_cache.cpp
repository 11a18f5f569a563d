#include "gpu/jit_cache.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "core/environment.h"
#include "core/file.h"
#include "stretto/error.h"

namespace stretto::cuda {
namespace {

constexpr char kMagic[8] = {'s', 't', 'r', 'e', 't', 't', 'o', '1'};
constexpr uint64_t kMaxFileBytes = uint64_t{64} << 20;

// FNV-1a: guards against damage and names files; the whole key is compared besides.
uint64_t hash(std::string_view text, uint64_t seed) {
  uint64_t value = 0xcbf29ce484222325ull ^ seed;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return value;
}

// Layout of a file: this, the key, the content.
struct Header {
  char magic[8];
  uint64_t key_bytes, content_bytes, checksum;
};

uint64_t checksum(std::string_view key, std::string_view content) {
  return hash(content, hash(key, 0));
}

// What writers were about to rename when they were killed: nobody compiles for a day. Only names
// that write_own_file() gives beside files of this cache.
void remove_abandoned(const std::string& folder) {
  namespace fs = std::filesystem;
  constexpr std::string_view kOurs = ".kernel.", kTemporary = ".tmp";
  const auto long_ago = fs::file_time_type::clock::now() - std::chrono::hours(24);
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (!name.ends_with(kTemporary) || name.find(kOurs) == std::string::npos) continue;
    std::error_code gone;
    const auto written = at->last_write_time(gone);
    if (!gone && written < long_ago) fs::remove(at->path(), gone);
  }
}

}  // namespace

std::string default_cache_folder() {
  if (!environment().cache_path.empty()) return environment().cache_path;
  return user_folder("XDG_CACHE_HOME", ".cache");
}

std::string JitCache::path_of(std::string_view key) const {
  if (folder_.empty()) return "";
  return fmt::format("{}/{:016x}{:016x}.kernel", folder_, hash(key, 0),
                     hash(key, 0x9e3779b97f4a7c15));
}

std::optional<std::string> JitCache::find(std::string_view key) const {
  const std::string path = path_of(key);
  std::error_code absent;
  // A pipe would hold us up until somebody writes.
  if (path.empty() || !std::filesystem::is_regular_file(path, absent)) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  Header header{};
  if (!file.read(reinterpret_cast<char*>(&header), sizeof(header))) return std::nullopt;
  if (std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0 || header.key_bytes != key.size() ||
      header.content_bytes > kMaxFileBytes) {
    return std::nullopt;
  }
  std::string found_key(key.size(), '\0');
  if (!file.read(found_key.data(), static_cast<std::streamsize>(key.size())) || found_key != key) {
    return std::nullopt;
  }
  // A damaged length must not make us allocate more than the file holds.
  std::error_code error;
  const uintmax_t file_bytes = std::filesystem::file_size(path, error);
  if (error || file_bytes != sizeof(Header) + header.key_bytes + header.content_bytes) {
    return std::nullopt;
  }
  std::string content(header.content_bytes, '\0');
  if (!file.read(content.data(), static_cast<std::streamsize>(content.size()))) return std::nullopt;
  if (checksum(key, content) != header.checksum) return std::nullopt;
  return content;
}

bool JitCache::put(std::string_view key, std::string_view content) const {
  const std::string path = path_of(key);
  if (path.empty() || content.size() > kMaxFileBytes) return false;
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.key_bytes = key.size();
  header.content_bytes = content.size();
  header.checksum = checksum(key, content);
  std::string file(reinterpret_cast<const char*>(&header), sizeof(header));
  file += key;
  file += content;
  try {
    std::error_code error;
    std::filesystem::create_directories(folder_, error);
    remove_abandoned(folder_);
    write_own_file(path, file);
    return true;
  } catch (const SystemError&) {
    return false;
  }
}

}  // namespace stretto::cuda
