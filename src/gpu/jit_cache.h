// Compiled kernels on disk. A convenience that never fails: a folder that is full, read-only or
// damaged means compiling again.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace stretto::cuda {

// STRETTO_CACHE_PATH, else the user's cache folder; empty when there is none.
std::string default_cache_folder();

class JitCache {
 public:
  // An empty folder: nothing is kept.
  explicit JitCache(std::string folder) : folder_(std::move(folder)) {}

  // What was put under exactly this key, if it is there and whole. Files are not trusted: key,
  // length and checksum must agree.
  std::optional<std::string> find(std::string_view key) const;

  // Whole or not at all, also beside concurrent writers of the same key. False when not kept.
  bool put(std::string_view key, std::string_view content) const;

  // The file of a key; empty without a folder.
  std::string path_of(std::string_view key) const;

 private:
  std::string folder_;
};

}  // namespace stretto::cuda
