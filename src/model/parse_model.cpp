// Reads config.json: the keys under which model families keep the same sizes.
#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/text.h"
#include "model/model.h"
#include "model/published.h"
#include "stretto/error.h"

namespace stretto {
namespace {

constexpr int64_t kMostSize = int64_t{1} << 20, kMostLayers = 10'000;

// Families with one product up and none beside it that gates.
constexpr std::string_view kUngated[] = {"bloom",       "codegen", "falcon",   "gpt2",      "gpt3",
                                         "gpt_bigcode", "gpt_neo", "gpt_neox", "gptj",      "mpt",
                                         "nemotron",    "opt",     "phi",      "starcoder2"};

using Json = nlohmann::ordered_json;  // keeps the order in which models are listed

constexpr int kMostDepth = 32;  // of objects and arrays

// Every error is a UsageError that names the file.
class ConfigReader {
 public:
  explicit ConfigReader(std::string_view file_name) : file_(quote(file_name, 200)) {}

  [[noreturn]] void fail(const std::string& what) const {
    throw UsageError(fmt::format("model configuration {}: {}", file_, what));
  }

  Json parse(std::string_view text) const {
    const auto watch = [&](int depth, Json::parse_event_t, Json&) {
      if (depth > kMostDepth) fail("nested too deeply");
      return true;
    };
    Json parsed;
    try {
      parsed = Json::parse(text.begin(), text.end(), watch);
    } catch (const Json::parse_error& error) {
      fail(fmt::format("not JSON at {}", place_of_byte(text, error.byte)));
    } catch (const Json::exception& error) {
      fail(fmt::format("not usable JSON: {}", quote(error.what(), 200)));
    }
    if (!parsed.is_object()) fail("it is no JSON object");
    return parsed;
  }

  // The first of `keys` that is there and not null, as a whole number up to `most`.
  std::optional<int64_t> find(const Json& config, std::initializer_list<const char*> keys,
                              int64_t most) const {
    for (const char* key : keys) {
      const auto found = config.find(key);
      if (found == config.end() || found->is_null()) continue;
      const bool is_whole = found->is_number_integer();
      if (!is_whole || *found < 1 || *found > most) {
        fail(fmt::format("'{}' must be a whole number from 1 to {}, found {}", key, most,
                         quote(found->dump(-1, ' ', true, Json::error_handler_t::replace))));
      }
      return found->get<int64_t>();
    }
    return std::nullopt;
  }

  int64_t require(const Json& config, std::initializer_list<const char*> keys, int64_t most) const {
    if (const auto found = find(config, keys, most)) return *found;
    fail(fmt::format("'{}' is missing: is it the config.json of a transformer?", *keys.begin()));
  }

 private:
  std::string file_;
};

// Models that also see or hear keep the transformer's sizes one level below.
const Json& part_with_sizes(const Json& config) {
  for (const char* part : {"text_config", "llm_config", "language_config"}) {
    const auto found = config.find(part);
    if (found != config.end() && found->is_object()) return *found;
  }
  return config;
}

std::string text_of(const Json& config, const char* key) {
  const auto found = config.find(key);
  return found != config.end() && found->is_string() ? found->get<std::string>() : "";
}

Model model_of(const ConfigReader& reader, const Json& whole) {
  if (!whole.is_object()) reader.fail("a model is no JSON object");
  const Json& config = part_with_sizes(whole);
  if (reader.find(config, {"kv_lora_rank"}, kMostSize)) {
    reader.fail("'kv_lora_rank': latent attention has products that Stretto does not know yet");
  }
  Model model;
  model.hidden = reader.require(config, {"hidden_size", "n_embd", "d_model"}, kMostSize);
  model.heads = reader.require(config, {"num_attention_heads", "n_head", "n_heads"}, kMostSize);
  model.layers = reader.require(config, {"num_hidden_layers", "n_layer", "n_layers"}, kMostLayers);
  model.kv_heads =
      reader.find(config, {"num_key_value_heads", "num_kv_heads"}, kMostSize).value_or(model.heads);
  const auto head_dim = reader.find(config, {"head_dim"}, kMostSize);
  if (!head_dim && model.hidden % model.heads != 0) {
    reader.fail(fmt::format("{} heads do not divide the hidden size {}, and there is no 'head_dim'",
                            model.heads, model.hidden));
  }
  model.head_dim = head_dim.value_or(model.hidden / model.heads);
  model.experts =
      reader.find(config, {"num_local_experts", "num_experts", "n_routed_experts"}, kMostSize)
          .value_or(1);
  const std::string family = text_of(config, "model_type");
  model.is_gated =
      std::find(std::begin(kUngated), std::end(kUngated), family) == std::end(kUngated);
  const auto intermediate = reader.find(
      config, {"intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size"}, kMostSize);
  if (!intermediate && model.is_gated && model.experts <= 1) {
    reader.require(config, {"intermediate_size"}, kMostSize);
  }
  model.intermediate = intermediate.value_or(4 * model.hidden);
  return model;
}

}  // namespace

Model parse_model(std::string_view text, std::string_view file_name) {
  const ConfigReader reader(file_name);
  Model model = model_of(reader, reader.parse(text));
  model.name = file_name;
  return model;
}

std::vector<Model> parse_published(std::string_view text, std::string_view file_name) {
  const ConfigReader reader(file_name);
  std::vector<Model> models;
  const Json published = reader.parse(text);
  for (const auto& [name, config] : published.items()) {
    models.push_back(model_of(reader, config));
    models.back().name = name;
    models.back().source = text_of(config, "source");
  }
  return models;
}

}  // namespace stretto
