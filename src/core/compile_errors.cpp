#include "core/compile_errors.h"

#include <fmt/format.h>

#include <cctype>
#include <vector>

#include "core/text.h"

namespace stretto {
namespace {

constexpr size_t kMostSaid = 500;

bool is_error(std::string_view line) { return line.find("error:") != std::string_view::npos; }

// Of a report that has no error: an assembler's, or of a compiler that was ended.
std::string first_words(const std::vector<std::string_view>& lines) {
  std::string_view first;
  for (const std::string_view line : lines) {
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const bool is_fatal = line.find("fatal") != std::string_view::npos;
    if (first.empty() || is_fatal) first = line.substr(0, kMostSaid);
    if (is_fatal) break;
  }
  return first.empty() ? "the compiler ended without saying why" : std::string(first);
}

// "keep.h:12" of "keep.h:12:5:   required from ...", empty of a line that begins with no place.
std::string_view place_in(std::string_view line) {
  const size_t colon = line.find_first_of(": ");
  if (colon == std::string_view::npos || colon == 0 || line[colon] != ':') return {};
  size_t end = colon + 1;
  while (end < line.size() && std::isdigit(static_cast<unsigned char>(line[end])) != 0) ++end;
  return end == colon + 1 ? std::string_view() : line.substr(0, end);
}

}  // namespace

std::string first_compile_error(std::string_view report, std::string_view folder) {
  const std::vector<std::string_view> lines = split(report, '\n');
  std::string first;
  int count = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    std::string_view line = lines[i];
    if (!is_error(line) || count++ > 0) continue;
    const bool is_ours = !folder.empty() && line.starts_with(folder);
    if (is_ours) line.remove_prefix(folder.size());
    first = line.substr(0, kMostSaid);
    for (size_t back = i; is_ours && back-- > 0;) {
      const std::string_view place = place_in(lines[back]);
      if (place.empty() || place.starts_with(folder)) continue;
      first += fmt::format(" (by way of {})", place);
      break;
    }
  }
  if (count == 0) return first_words(lines);
  return count == 1 ? first : fmt::format("{} (and {} more)", first, count - 1);
}

}  // namespace stretto
