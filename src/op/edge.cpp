#include "stretto/edge.h"

#include <algorithm>
#include <iterator>

namespace stretto {

std::string_view to_string(Edge edge) { return kind_of(edge).text; }

std::optional<Edge> edge_between(Held made, Held needed) {
  if (made == needed) return Edge::none;
  if (made == Held::whole)
    return needed == Held::partial ? std::nullopt : std::optional(Edge::none);
  for (const EdgeKind& kind : kEdges) {
    for (const HeldAndNeeded& one : kind.between) {
      if (one.made == made && one.needed == needed) return kind.edge;
    }
  }
  return std::nullopt;
}

namespace {

#define STRETTO_NAME(constant, name, ...) name,
#define STRETTO_KIND(constant, ...) constant,
constexpr std::string_view kNames[] = {STRETTO_PRODUCTS(STRETTO_NAME)};
constexpr ProductKind kKinds[] = {STRETTO_PRODUCTS(STRETTO_KIND)};
#undef STRETTO_KIND
#undef STRETTO_NAME

}  // namespace

std::string_view to_string(ProductKind kind) {
  const auto found = std::find(std::begin(kKinds), std::end(kKinds), kind);
  return found == std::end(kKinds) ? "product" : kNames[found - std::begin(kKinds)];
}

bool ProductKind::has_name() const {
  return std::find(std::begin(kKinds), std::end(kKinds), *this) != std::end(kKinds);
}

std::optional<ProductKind> product_kind_from(std::string_view text) {
  const auto found = std::find(std::begin(kNames), std::end(kNames), text);
  if (found == std::end(kNames)) return std::nullopt;
  return kKinds[found - std::begin(kNames)];
}

std::span<const std::string_view> product_kind_names() { return kNames; }

}  // namespace stretto
