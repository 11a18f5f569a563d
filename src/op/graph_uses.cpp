#include "op/graph_uses.h"

#include <fmt/format.h>

#include <utility>

#include "core/meant.h"
#include "core/text.h"
#include "op/cycles.h"
#include "op/extent.h"

namespace stretto {
namespace {

constexpr size_t kMostNames = 24;        // that a reason lists
constexpr size_t kFirst = 6, kLast = 2;  // of a longer cycle's tensors

// "x needs y, y needs z, z needs x": each of them is in it twice, so not all of very many are.
std::string needs_in_turn(const std::vector<std::string_view>& tensors) {
  const size_t count = tensors.size();
  const bool is_long = count > kFirst + kLast + 1;
  std::string out;
  for (size_t i = 0; i < count; ++i) {
    if (is_long && i >= kFirst && i < count - kLast) {
      if (i == kFirst) out += fmt::format(", ... ({} more)", count - kFirst - kLast);
      continue;
    }
    out += fmt::format("{}{} needs {}", i > 0 ? ", " : "", tensors[i], tensors[(i + 1) % count]);
  }
  return out;
}

constexpr std::string_view kRight = "of inputs, or of tensors that lines above make";

}  // namespace

bool GraphUses::make(const std::string& tensor, TextPlace where, bool is_stage) {
  const int id = static_cast<int>(makers_.size());
  const bool is_new = ids_.try_emplace(tensor, id).second;
  if (is_new) makers_.push_back({tensor, where, is_stage});
  last_ = is_new ? id : -1;
  return is_new;
}

void GraphUses::need(const std::string& tensor, TextPlace where) {
  uses_.push_back({last_, tensor, where});
}

void GraphUses::give(const std::string& tensor, TextPlace where) {
  uses_.push_back({-1, tensor, where});
}

void GraphUses::add_words(std::string_view line, Names& to) {
  for (size_t at = 0; at < line.size();) {
    size_t end = at;
    while (end < line.size() && is_name_char(line[end])) ++end;
    while (at < end && !is_name_start(line[at])) ++at;
    if (at < end) to.emplace(line.substr(at, end - at));
    at = end + 1;
  }
}

void GraphUses::say_unknown(const Use& use, GraphWords& words) const {
  std::vector<std::string_view> known;
  for (const Maker& maker : makers_) {
    if (maker.place.line < use.where.line) known.push_back(maker.tensor);
  }
  const std::string reason =
      known.size() <= kMostNames
          ? unknown_word("tensor", use.tensor, known)
          : fmt::format("unknown tensor {}{}; {} others are known", quote(use.tensor),
                        meant(use.tensor, known), known.size());
  words.refuse_at(use.where, reason + "; a tensor is made in a line above its use");
}

void GraphUses::say_makers(GraphWords& words) {
  std::vector<std::vector<int>> needs(makers_.size());
  for (const Use& use : uses_) {
    const auto made = ids_.find(use.tensor);
    if (use.by >= 0 && made != ids_.end()) {
      needs[static_cast<size_t>(use.by)].push_back(made->second);
    }
  }
  // Each cycle has a use of what is made below it. One search for each that is told, so their time
  // grows with the lines, and not with their square.
  std::set<std::pair<int, int>> told;
  for (const Use& use : uses_) {
    const auto made = ids_.find(use.tensor);
    if (made == ids_.end()) {
      if (may_make_.count(use.tensor)) continue;
      knows_uses_ = false;  // another tensor may be meant
      if (!words.has_enough_reasons()) say_unknown(use, words);
      continue;
    }
    const Maker& maker = makers_[static_cast<size_t>(made->second)];
    if (maker.place.line < use.where.line || words.has_enough_reasons()) continue;
    if (told.count({use.by, made->second})) continue;
    const std::vector<int> way =
        use.by < 0 ? std::vector<int>() : way_between(needs, made->second, use.by);
    if (way.empty()) {
      words.refuse_at(use.where,
                      fmt::format("tensor {} is made below, in line {}: a tensor is made in a line "
                                  "above its use",
                                  use.tensor, maker.place.line));
      continue;
    }
    if (way.size() == 1) {
      words.refuse_at(use.where, fmt::format("tensor {} is made by this very stage: a graph has no "
                                             "cycles; make it {}",
                                             use.tensor, kRight));
      continue;
    }
    std::vector<std::string_view> tensors = {makers_[static_cast<size_t>(use.by)].tensor};
    for (size_t i = 0; i + 1 < way.size(); ++i) {
      tensors.push_back(makers_[static_cast<size_t>(way[i])].tensor);
      told.insert({way[i], way[i + 1]});
    }
    told.insert({use.by, made->second});
    words.refuse_at(use.where, fmt::format("a cycle of {} tensors, and a graph has none: {}; make "
                                           "one of them {}",
                                           tensors.size(), needs_in_turn(tensors), kRight));
  }
}

void GraphUses::say_unused(GraphWords& words) const {
  if (!knows_uses_) return;
  std::set<std::string_view> used(may_use_.begin(), may_use_.end());
  for (const Use& use : uses_) used.insert(use.tensor);
  for (const Maker& maker : makers_) {
    if (used.count(maker.tensor)) continue;
    words.refuse_at(maker.place,
                    maker.is_stage
                        ? fmt::format("nothing uses tensor {}; make it an output", maker.tensor)
                        : fmt::format("no stage uses input {}", maker.tensor));
  }
}

}  // namespace stretto
