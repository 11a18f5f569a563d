// Headers of kernels of a user's own, as one text with what they include of the user's.
#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <set>
#include <string_view>

#include "core/file.h"
#include "core/text.h"
#include "stretto/edge_kernel.h"
#include "stretto/error.h"

namespace stretto {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostHeaderBytes = size_t{1} << 20, kMostHeaders = 1000;

// Whether a comment that began with `/*` goes on behind the line.
bool ends_in_comment(std::string_view line, bool in_comment) {
  for (size_t i = 0; i + 1 < line.size(); ++i) {
    const std::string_view two = line.substr(i, 2);
    if (!in_comment && two == "//") return false;
    if (two != (in_comment ? "*/" : "/*")) continue;
    in_comment = !in_comment;
    ++i;
  }
  return in_comment;
}

// The NAME of a line `#include "NAME"`.
std::optional<std::string_view> included(std::string_view line) {
  const auto skip = [&](std::string_view word) {
    while (!line.empty() && (line.front() == ' ' || line.front() == '\t')) line.remove_prefix(1);
    if (!line.starts_with(word)) return false;
    line.remove_prefix(word.size());
    return true;
  };
  if (!skip("#") || !skip("include") || !skip("\"")) return std::nullopt;
  const size_t end = line.find('"');
  if (end == std::string_view::npos) return std::nullopt;
  return line.substr(0, end);
}

class Headers {
 public:
  explicit Headers(fs::path folder) : folder_(std::move(folder)) {}

  bool has(const std::string& name) const {
    std::error_code ignored;
    return fs::is_regular_file(folder_ / name, ignored);
  }

  // `name`: from the folder on. Compilers are told which lines are whose.
  std::string read(const std::string& name) {
    if (read_.size() == kMostHeaders) {
      throw UsageError(fmt::format("{} includes more than {} headers", name, kMostHeaders));
    }
    read_.insert(name);
    const std::string text = read_regular_file((folder_ / name).string(), kMostHeaderBytes);
    std::string out;
    bool in_comment = false;
    int number = 0;
    for (const std::string_view line : split(text, '\n')) {
      ++number;
      const std::optional<std::string> own =
          in_comment ? std::nullopt : own_header(name, included(line));
      in_comment = ends_in_comment(line, in_comment);
      if (!own) {
        out.append(line).append("\n");
      } else if (read_.count(*own) > 0) {
        out += '\n';
      } else {
        out +=
            fmt::format("#line 1 \"{}\"\n{}#line {} \"{}\"\n", *own, read(*own), number + 1, name);
      }
    }
    return out;
  }

 private:
  // What is not there, or not in the folder, is left to the compiler, which says so with its line.
  std::optional<std::string> own_header(const std::string& of,
                                        std::optional<std::string_view> name) const {
    constexpr std::string_view kOurs = "stretto/";
    if (!name || name->starts_with(kOurs)) return std::nullopt;
    const fs::path path = (fs::path(of).parent_path() / *name).lexically_normal();
    const std::string text = path.generic_string();
    const bool leaves = path.is_absolute() || path.begin()->string() == "..";
    const bool is_plain = text.find_first_of("\\\"") == std::string::npos;
    if (leaves || !is_plain || !has(text)) return std::nullopt;
    return text;
  }

  const fs::path folder_;
  std::set<std::string> read_;
};

}  // namespace

std::shared_ptr<const std::string> read_kernel_header(const std::string& folder,
                                                      const std::string& header) {
  Headers headers(folder);
  if (!headers.has(header)) return nullptr;
  return std::make_shared<const std::string>(headers.read(header));
}

}  // namespace stretto
