#include <algorithm>
#include <filesystem>
#include <tuple>

#include "core/embedded_text.h"
#include "core/file.h"
#include "core/json_path.h"
#include "core/text.h"
#include "model/model.h"
#include "model/published.h"
#include "stretto/error.h"

namespace stretto {
namespace {

constexpr size_t kMostConfigBytes = size_t{1} << 20;

// A folder stands for the config.json in it, as for other tools that read models.
std::string file_of(std::string_view path) {
  std::error_code ignored;
  const std::filesystem::path given(path);
  return std::filesystem::is_directory(given, ignored) ? (given / "config.json").string()
                                                       : given.string();
}

}  // namespace

const std::vector<Model>& published_models() {
  static const std::vector<Model> models = [] {
    std::vector<Model> found;
    for (const EmbeddedText& shipped : shipped_models()) {
      const std::vector<Model> some = parse_published(shipped.text, shipped.name);
      found.insert(found.end(), some.begin(), some.end());
    }
    return found;
  }();
  return models;
}

std::string measured_experts(const Model& model) {
  const auto sizes = [](const Model& of) {
    return std::tuple(of.hidden, of.intermediate, of.experts, of.experts_a_row);
  };
  if (!model.is_routed()) return "";
  for (const Model& known : published_models()) {
    if (!known.experts_measured.empty() && sizes(known) == sizes(model))
      return known.experts_measured;
  }
  return "";
}

Model load_model(std::string_view name) {
  if (is_json_path(name)) {
    const std::string path = file_of(name);
    return parse_model(read_regular_file(path, kMostConfigBytes), path);
  }
  std::vector<std::string_view> known;
  for (const Model& model : published_models()) {
    if (model.name == name) return model;
    known.push_back(model.name);
  }
  throw UsageError(unknown_word("model", name, known) + "; or give a config.json");
}

}  // namespace stretto
