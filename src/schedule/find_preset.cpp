// Presets by name, and what a name that is none may have meant.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include "core/meant.h"
#include "core/text.h"
#include "schedule/systems.h"
#include "stretto/error.h"
#include "stretto/schedule.h"

namespace stretto {
namespace {

// How people call what there is under another name, in small letters.
struct OtherName {
  std::string_view name, meant;
};
constexpr OtherName kOtherNames[] = {
    {"nccl", "library"},         {"cublas", "library"},      {"te", "transformer-engine"},
    {"trt-llm", "tensorrt-llm"}, {"trtllm", "tensorrt-llm"}, {"triton", "triton-distributed"},
    {"fused", "tiles"},          {"mega-moe", "megamoe"},    {"async-tp", "asynctp"},
};

// " (did you mean 'flux'?)" of a name in other letters, or of another of these; else empty.
std::string meant_system(std::string_view name) {
  std::string word(name);
  std::transform(word.begin(), word.end(), word.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto* const other = std::find_if(std::begin(kOtherNames), std::end(kOtherNames),
                                         [&](const OtherName& one) { return one.name == word; });
  if (other != std::end(kOtherNames)) word = other->meant;
  const bool is_preset = std::any_of(presets().begin(), presets().end(),
                                     [&](const Preset& one) { return one.name == word; });
  if (!is_preset && find_system(word) == nullptr) return "";
  return fmt::format(" (did you mean '{}'?)", word);
}

}  // namespace

const Preset& find_preset(std::string_view name, std::span<const std::string_view> words) {
  std::vector<std::string_view> names;
  for (const Preset& preset : presets()) {
    if (preset.name == name) return preset;
    names.push_back(preset.name);
  }
  names.insert(names.end(), words.begin(), words.end());
  std::string meant_text = meant_system(name);
  if (meant_text.empty()) {
    std::vector<std::string_view> all = names;
    for (const System& system : systems()) all.push_back(system.name);
    meant_text = meant(name, all);
  }
  throw UsageError(
      fmt::format("unknown strategy {}{}; known: systems, as `stretto strategies` "
                  "lists them, {}",
                  quote(name), meant_text, fmt::join(names, ", ")));
}

}  // namespace stretto
