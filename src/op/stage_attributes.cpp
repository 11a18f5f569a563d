#include "op/stage_attributes.h"

#include <fmt/format.h>

#include "core/text.h"

namespace stretto {
namespace {

bool takes_experts(StageKind kind) {
  return kind == StageKind::slice_ids || kind == StageKind::permute || kind == StageKind::count;
}

std::string_view attributes_of(StageKind kind) {
  if (kind == StageKind::norm) return "eps";
  if (chooses_experts(kind)) return "k, groups and best";
  if (kind == StageKind::slice_ids) return "experts and slices";
  if (kind == StageKind::slice_weights) return "slices";
  if (takes_experts(kind)) return "experts";
  return weighs_experts(kind) ? "scale and normalise" : "";
}

}  // namespace

bool read_attribute(GraphWords& words, StageText& stage, std::string_view key, TextPlace where) {
  const StageKind kind = stage.kind;
  if (kind == StageKind::norm && key == "eps") {
    return words.decimal(stage.eps, 1, "a number above 0 and up to 1");
  }
  if (chooses_experts(kind)) {
    if (key == "k") return words.extent(stage.k.emplace());
    if (key == "groups") return words.extent(stage.groups.emplace());
    if (key == "best") return words.extent(stage.best.emplace());
  }
  if (slices_choices(kind) && key == "slices") return words.extent(stage.slices.emplace());
  if (takes_experts(kind) && key == "experts") return words.extent(stage.experts.emplace());
  if (weighs_experts(kind) && key == "scale") {
    return words.decimal(stage.scale.emplace(), 1e9, "a number above 0 and up to 1e9");
  }
  if (weighs_experts(kind) && key == "normalise")
    return words.yes_or_no(stage.normalises.emplace());
  const std::string_view known = attributes_of(kind);
  words.refuse_at(where, fmt::format("{} has no attribute {}{}{}", to_string(kind), quote(key),
                                     known.empty() ? "" : "; it has ", known));
  return false;
}

std::string missing_attribute(const StageText& stage) {
  const std::string_view kind = to_string(stage.kind);
  if (chooses_experts(stage.kind) && !stage.k) {
    return fmt::format("{} needs k=, how many experts a row chooses", kind);
  }
  if (slices_choices(stage.kind) && !stage.slices) {
    return fmt::format("{} needs slices=, how many each expert is cut in", kind);
  }
  if (takes_experts(stage.kind) && !stage.experts) {
    return fmt::format("{} needs experts=, how many there are", kind);
  }
  return {};
}

}  // namespace stretto
