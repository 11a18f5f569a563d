// Headers of kernels of a user's own, as one text with what they include of the user's. Each stands
// wherever it is included, behind a guard, so that it is compilers that say which of these places
// live: NVRTC would look for the names that it is given as they are spelled, from any folder.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>

#include "core/file.h"
#include "core/text.h"
#include "op/code_lines.h"
#include "stretto/edge_kernel.h"
#include "stretto/error.h"

namespace stretto {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostHeaderBytes = size_t{1} << 20, kMostHeaders = 1000;
// Of the one text: a header counts as often as it stands there.
constexpr size_t kMostBytes = size_t{16} << 20;

// What a line has behind `word`, if that comes next but for blanks and comments.
std::optional<std::string_view> behind(std::string_view line, std::string_view word) {
  while (true) {
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    if (!line.starts_with("/*")) break;
    const size_t end = line.find("*/", 2);
    if (end == std::string_view::npos) return std::nullopt;
    line.remove_prefix(end + 2);
  }
  if (!line.starts_with(word)) return std::nullopt;
  return line.substr(word.size());
}

struct Include {
  bool is_quoted;
  std::string_view name, rest;  // what stands behind it
};

// Of a directive's words behind its '#'.
std::optional<Include> included(std::string_view directive) {
  const auto names = behind(directive, "include");
  if (!names) return std::nullopt;
  for (const auto& [open, close] : {std::pair{"\"", '"'}, std::pair{"<", '>'}}) {
    const auto name = behind(*names, open);
    const size_t end = name ? name->find(close) : std::string_view::npos;
    if (end == std::string_view::npos) continue;
    return Include{close == '"', name->substr(0, end), name->substr(end + 1)};
  }
  return std::nullopt;
}

// Without what only a file may begin with, a byte order mark, and end with, a line that goes on.
std::string as_part(std::string text) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  if (text.starts_with(kMark)) text.erase(0, kMark.size());
  if (text.ends_with('\\')) text += '\n';
  return text;
}

bool leaves(const fs::path& normal) {
  return normal.is_absolute() || (!normal.empty() && *normal.begin() == "..");
}

class Headers {
 public:
  Headers(const std::string& folder, std::string root)
      : folder_(folder.empty() ? "." : folder), root_(std::move(root)) {}

  std::optional<std::string> text() {
    const fs::path path = fs::path(root_).lexically_normal();
    if (leaves(path)) {
      throw UsageError(fmt::format("{} leaves the folder of the headers", quote(root_)));
    }
    Header* const header = find(path.generic_string());
    if (header == nullptr) return std::nullopt;
    put(*header, root_);
    return std::move(out_);
  }

 private:
  struct Header {
    size_t number = 0;
    std::string text;
    bool is_open = false;  // what is being put is of it
  };

  // Null: it is not there. A header that has several names is one.
  Header* find(const std::string& name) {
    if (const auto known = by_name_.find(name); known != by_name_.end()) return known->second;
    std::error_code error;
    const fs::path path = folder_ / name;
    if (!fs::is_regular_file(path, error)) return nullptr;
    const fs::path real = fs::canonical(path, error), folder = fs::canonical(folder_, error);
    if (error) return nullptr;
    if (leaves(real.lexically_relative(folder))) {
      throw UsageError(fmt::format(
          "{} is a link that leads out of the folder of the headers: put the file itself there",
          quote(name, 200)));
    }
    const auto [place, is_new] = headers_.try_emplace(real.string());
    Header& header = place->second;
    if (is_new) {
      if (headers_.size() > kMostHeaders) refuse_more(fmt::format("{} headers", kMostHeaders));
      header.number = headers_.size();
      header.text = as_part(read_regular_file(real.string(), kMostHeaderBytes));
    }
    return by_name_[name] = &header;
  }

  // Compilers are told which lines are whose: again behind what they may have skipped, where they
  // heed nothing that they are told.
  void put(Header& header, const std::string& name) {
    header.is_open = true;
    const std::vector<bool> begins = begin_as_code(header.text);
    bool has_included = false, may_be_lost = false;
    size_t number = 0;
    for (const std::string_view line : split(header.text, '\n')) {
      ++number;
      const bool is_code = begins.at(number - 1);
      if (may_be_lost && is_code) {
        add(fmt::format("#line {} \"{}\"", number, name));
        may_be_lost = false;
      }
      const auto directive = is_code ? behind(line, "#") : std::nullopt;
      if (!directive) {
        add(line);
        continue;
      }
      if (const auto include = included(*directive)) {
        if (Header* const own = own_header(name, number, *include)) {
          put_guarded(*own, own_name(name, include->name), name, number, include->rest);
          has_included = true;
          continue;
        }
      }
      may_be_lost = has_included && (behind(*directive, "el") || behind(*directive, "endif"));
      add(line);
    }
    header.is_open = false;
  }

  // What stands behind the name stays on its line: a comment may go on behind it.
  void put_guarded(Header& header, const std::string& name, const std::string& of, size_t number,
                   std::string_view rest) {
    if (!header.is_open) {
      const std::string guard = fmt::format("STRETTO_HEADER_{}", header.number);
      add(fmt::format("#line 1 \"{0}\"\n#ifndef {1}\n#define {1}\n#line 1 \"{0}\"", name, guard));
      put(header, name);
      add(fmt::format("#endif\n#line {} \"{}\"", number, of));
    }
    add(fmt::format("#{}", rest));
  }

  static std::string own_name(const std::string& of, std::string_view name) {
    return (fs::path(of).parent_path() / name).lexically_normal().generic_string();
  }

  // What is not there is left to compilers, which say so with its line, where they look for it in
  // their own folders only.
  Header* own_header(const std::string& of, size_t number, const Include& include) {
    const std::string name = own_name(of, include.name);
    if (include.is_quoted && !include.name.starts_with("stretto/") && !leaves(name) &&
        name.find_first_of("\\\"") == std::string::npos) {
      if (Header* const found = find(name)) return found;
    }
    if (leaves(fs::path(include.name).lexically_normal()) || (include.is_quoted && leaves(name))) {
      throw UsageError(fmt::format(
          "{}:{} includes {}, which is not in the folder of the headers: a header of your own lies "
          "beside the one that includes it, in the graph file's folder or that of --kernels",
          in_one_line(of), number, quote(include.name, 200)));
    }
    return nullptr;
  }

  void add(std::string_view line) {
    out_.append(line).append("\n");
    if (out_.size() > kMostBytes) {
      refuse_more(
          fmt::format("{} MiB where each stands wherever it is included", kMostBytes >> 20));
    }
  }
  [[noreturn]] void refuse_more(const std::string& than) const {
    throw UsageError(
        fmt::format("{} and what it includes are more than {}", quote(root_, 200), than));
  }

  const fs::path folder_;
  const std::string root_;
  std::map<std::string, Header> headers_;  // by where they really are
  std::map<std::string, Header*> by_name_;
  std::string out_;
};

}  // namespace

std::shared_ptr<const std::string> read_kernel_header(const std::string& folder,
                                                      const std::string& header) {
  std::optional<std::string> text = Headers(folder, header).text();
  return text ? std::make_shared<const std::string>(*std::move(text)) : nullptr;
}

}  // namespace stretto
