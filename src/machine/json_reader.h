// Values of a machine file. Every error is a UsageError that names the file, then the key.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace stretto {

using Json = nlohmann::ordered_json;  // keeps the file's order, in which sources are told

class JsonReader {
 public:
  explicit JsonReader(std::string_view file_name);

  // The file's text. Keys that are given twice are an error too.
  Json parse(std::string_view text) const;

  [[noreturn]] void fail(const std::string& what) const;
  [[noreturn]] void fail(const std::string& key, const std::string& right, const Json& got) const;

  // `path` is the key of `object`, empty for the file itself.
  void allow_keys(const Json& object, const std::string& path,
                  const std::vector<std::string_view>& known) const;
  const Json& member(const Json& object, const std::string& path, const std::string& key) const;
  // Not empty; `limit` is in bytes.
  std::string read_text(const Json& object, const std::string& path, const std::string& key,
                        size_t limit) const;

  int read_int(const Json& value, const std::string& key, int least, int most) const;
  double read_number(const Json& value, const std::string& key, double least, double most) const;

 private:
  std::string file_;  // quoted
};

}  // namespace stretto
