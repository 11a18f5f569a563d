#include "core/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <numeric>

#include "core/meant.h"

namespace stretto {
namespace {

// Longer words are never a slip of the keyboard, and the distance below is quadratic.
constexpr size_t kMaxSuggestLength = 40;

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

std::optional<std::string_view> nearest(std::string_view word,
                                        std::span<const std::string_view> known) {
  if (word.empty() || word.size() > kMaxSuggestLength) return std::nullopt;
  std::optional<std::string_view> best;
  size_t best_distance = std::max<size_t>(2, word.size() / 3) + 1;
  for (std::string_view candidate : known) {
    const size_t distance = edit_distance(word, candidate);
    const bool alike = 2 * distance <= std::max(word.size(), candidate.size());
    if (distance < best_distance && alike) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace

std::optional<int64_t> int_from(std::string_view text) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t stop = text.find(separator);
    parts.push_back(text.substr(0, stop));
    if (stop == std::string_view::npos) return parts;
    text.remove_prefix(stop + 1);
  }
}

std::string join(std::span<const std::string> parts, std::string_view separator) {
  return fmt::format("{}", fmt::join(parts.begin(), parts.end(), separator));
}

std::string meant(std::string_view word, std::span<const std::string_view> known) {
  const auto suggestion = nearest(word, known);
  return suggestion ? fmt::format(" (did you mean '{}'?)", *suggestion) : "";
}

std::string unknown_word(std::string_view what, std::string_view word,
                         std::span<const std::string_view> known) {
  if (known.empty()) return fmt::format("unknown {} {}; there is none", what, quote(word));
  return fmt::format("unknown {} {}{}; known: {}", what, quote(word), meant(word, known),
                     fmt::join(known.begin(), known.end(), ", "));
}

std::string place_of_byte(std::string_view text, size_t number) {
  const std::string_view before = text.substr(0, number > 0 ? number - 1 : 0);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const size_t newline = before.rfind('\n');
  const size_t column = before.size() - (newline == before.npos ? 0 : newline + 1) + 1;
  return fmt::format("line {}, column {}", line, column);
}

std::string quote(std::string_view text, size_t limit) {
  std::string out = "'";
  for (char c : text.substr(0, limit)) {
    if (c >= ' ' && c <= '~') {
      out += c;
    } else {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  out += text.size() > limit ? "...'" : "'";
  return out;
}

std::string in_one_line(std::string_view name) {
  std::string out;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= ' ' && byte != 0x7f) {
      out += c;
    } else {
      out += fmt::format("\\x{:02x}", byte);
    }
  }
  return out;
}

std::string shortened(std::string_view path) {
  constexpr size_t kEnd = 120;
  if (path.size() <= 2 * kEnd + 3) return std::string(path);
  return fmt::format("{}...{}", path.substr(0, kEnd), path.substr(path.size() - kEnd));
}

}  // namespace stretto
