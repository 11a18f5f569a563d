#include "cli/nearest.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/text.h"

namespace stretto::cli {
namespace {

constexpr size_t kNearWords = 3;

// How unlike two words are: letters to change, of which those left out at the end count less.
constexpr size_t kChange = 4;
size_t distance(std::string_view word, std::string_view known) {
  std::vector<size_t> row(known.size() + 1);
  for (size_t j = 0; j <= known.size(); ++j) row[j] = kChange * j;
  for (size_t i = 1; i <= word.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = kChange * i;
    for (size_t j = 1; j <= known.size(); ++j) {
      const size_t insertion = i == word.size() ? 1 : kChange;
      const size_t replaced = diagonal + (word[i - 1] == known[j - 1] ? 0 : kChange);
      diagonal = row[j];
      row[j] = std::min({row[j] + kChange, row[j - 1] + insertion, replaced});
    }
  }
  return row.back();
}

}  // namespace

std::string unknown_of_many(std::string_view what, std::string_view word,
                            std::span<const std::string> known) {
  constexpr size_t kLongest = 40;  // of what may be a slip of the keyboard
  const std::string_view begin = word.substr(0, kLongest);
  std::vector<std::string> near(known.begin(), known.end());
  std::stable_sort(near.begin(), near.end(), [&](const auto& a, const auto& b) {
    return distance(begin, a) < distance(begin, b);
  });
  near.resize(std::min(near.size(), kNearWords));
  const auto is_slip = [&](const std::string& name) {
    return 2 * distance(begin, name) <= kChange * begin.size();
  };
  const std::string unknown = fmt::format("unknown {} {}", what, quote(word));
  if (near.empty() || !is_slip(near[0])) {
    return fmt::format("{}; nearest: {}", unknown, join(near, ", "));
  }
  while (!is_slip(near.back())) near.pop_back();
  for (std::string& name : near) name = quote(name);
  const std::string last = near.back();
  near.pop_back();
  return fmt::format("{}: did you mean {}{}{}?", unknown, join(near, ", "),
                     near.empty() ? "" : " or ", last);
}

}  // namespace stretto::cli
