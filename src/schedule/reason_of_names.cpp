#include "schedule/reason_of_names.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/text.h"

namespace stretto {
namespace {

void add_once(std::vector<std::string>& texts, std::string_view text) {
  if (std::find(texts.begin(), texts.end(), text) == texts.end()) texts.emplace_back(text);
}

// Of a system's point: that it is no more than near, and in what it differs. What a product that
// moves nothing differs in is said where no other has the system.
std::string reason_of(const System& system, const std::vector<SaidOfProduct>& products) {
  std::vector<std::string> names, differs, local;
  for (const SaidOfProduct& one : products) {
    if (one.system != &system) continue;
    names.emplace_back(one.name);
    add_once(one.point->sort == SortOfProduct::local ? local : differs, one.point->differs);
  }
  return fmt::format("{}the nearest point to {}, by Stretto's kernels: {}",
                     names.size() == products.size() ? "" : join(names, ", ") + ": ", system.title,
                     join(differs.empty() ? local : differs, "; "));
}

}  // namespace

std::string reason_of_names(const std::vector<SaidOfProduct>& products) {
  std::vector<std::string> reasons;
  for (const SaidOfProduct& one : products) {
    if (one.system != nullptr) add_once(reasons, reason_of(*one.system, products));
  }
  for (const SaidOfProduct& one : products) {
    if (one.why_tiles.empty()) continue;
    reasons.push_back(fmt::format("{} by tiles: {}", one.name, one.why_tiles));
  }
  return join(reasons, "; ");
}

}  // namespace stretto
