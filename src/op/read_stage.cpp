#include "op/read_stage.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/text.h"
#include "op/stage_attributes.h"

namespace stretto {
namespace {

constexpr double kUsualEps = 1e-6;

constexpr std::string_view kStageNames[] = {
#define STRETTO_NAME(name, text, operands, goes, meaning) text,
    STRETTO_STAGES(STRETTO_NAME)
#undef STRETTO_NAME
};

// Of a kind that is not known, up to the first word that is no tensor. It may need more.
void read_tensors(GraphWords& words, GraphUses& uses) {
  uses.miss_use();
  while (words.skip_blanks()) {
    const TextPlace at = words.place();
    std::string word;
    if (!words.is_at_name() || !words.name(word, "the name of a tensor")) return;
    if (words.is_at('=')) return;
    uses.need(word, at);
  }
}

bool read_operands(GraphWords& words, GraphUses& uses, StageText& stage) {
  while (words.skip_blanks()) {
    const TextPlace at = words.place();
    std::string word;
    if (!words.name(word, "the name of a tensor")) {
      uses.miss_use();
      return false;
    }
    if (words.is_at('=')) {
      words.skip();
      if (read_attribute(words, stage, word, at)) continue;
      uses.miss_use();
      return false;
    }
    uses.need(word, at);
    stage.in.push_back(std::move(word));
  }
  const std::string missing = missing_attribute(stage);
  if (!missing.empty()) words.refuse_at(stage.in_place, missing);
  const size_t needed = num_operands(stage.kind);
  if (stage.in.size() == needed) return missing.empty();
  if (stage.in.size() < needed) uses.miss_use();
  words.refuse_at(stage.in_place,
                  fmt::format("{} takes {} tensor{}, found {}", to_string(stage.kind), needed,
                              needed == 1 ? "" : "s", stage.in.size()));
  return false;
}

}  // namespace

std::optional<StageText> read_stage(GraphWords& words, GraphUses& uses) {
  StageText stage;
  words.skip_blanks();
  const TextPlace at = words.place();
  std::string kind;
  if (!words.name(kind, "a kind of stage")) {
    uses.miss_use();
    return std::nullopt;
  }
  const auto found = std::find(std::begin(kStageNames), std::end(kStageNames), kind);
  if (found == std::end(kStageNames)) {
    words.refuse_at(at, unknown_word("kind of stage", kind, kStageNames));
    read_tensors(words, uses);
    return std::nullopt;
  }
  stage.kind = static_cast<StageKind>(found - std::begin(kStageNames));
  if (stage.kind == StageKind::norm) stage.eps = kUsualEps;
  words.skip_blanks();
  stage.in_place = words.place();
  if (!read_operands(words, uses, stage)) return std::nullopt;
  return stage;
}

}  // namespace stretto
