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
constexpr std::string_view kUngated[] = {
    "apertus",  "arcee",       "bloom",     "codegen",  "falcon",    "gpt2",
    "gpt3",     "gpt_bigcode", "gpt_neo",   "gpt_neox", "gptj",      "mpt",
    "nemotron", "opt",         "persimmon", "phi",      "starcoder2"};

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
                              int64_t most, int64_t least = 1) const {
    for (const char* key : keys) {
      const auto found = config.find(key);
      if (found == config.end() || found->is_null()) continue;
      const bool is_whole = found->is_number_integer();
      if (!is_whole || *found < least || *found > most) {
        fail(fmt::format("'{}' must be a whole number from {} to {}, found {}", key, least, most,
                         quote(found->dump(-1, ' ', true, Json::error_handler_t::replace))));
      }
      return found->get<int64_t>();
    }
    return std::nullopt;
  }

  // Of what there may be none: absent means 0.
  int64_t count(const Json& config, std::initializer_list<const char*> keys,
                int64_t most = kMostSize) const {
    return find(config, keys, most, 0).value_or(0);
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

bool is(const Json& config, const char* key, bool absent) {
  const auto found = config.find(key);
  return found != config.end() && found->is_boolean() ? found->get<bool>() : absent;
}

// Heads of K and V. Where one is for all, some families say so in a word of their own.
int64_t kv_heads_of(const ConfigReader& reader, const Json& config, const std::string& family,
                    int64_t heads) {
  const bool is_old_falcon = family == "falcon" && !is(config, "new_decoder_architecture", false);
  if (is_old_falcon || family == "gpt_bigcode") return is(config, "multi_query", true) ? 1 : heads;
  if (is(config, "multi_query_attention", false)) {
    return reader.require(config, {"multi_query_group_num"}, kMostSize);
  }
  const auto attention = config.find("attn_config");  // of MPT and DBRX
  if (attention != config.end() && attention->is_object()) {
    if (const auto found = reader.find(*attention, {"kv_n_heads"}, kMostSize)) return *found;
  }
  return reader.find(config, {"num_key_value_heads", "num_kv_heads"}, kMostSize).value_or(heads);
}

// Layers of a routed model whose MLP is a usual one: the first ones, or all but every n-th.
int64_t unrouted_layers_of(const ConfigReader& reader, const Json& config, int64_t layers) {
  const int64_t first = reader.count(config, {"first_k_dense_replace"}, kMostLayers);
  const int64_t step =
      reader.count(config, {"decoder_sparse_step", "interleave_moe_layer_step"}, kMostLayers);
  return first > 0 ? std::min(first, layers) : layers - layers / std::max<int64_t>(1, step);
}

// DBRX keeps the MLP's sizes one level below.
const Json& part_with_experts(const Json& config) {
  const auto found = config.find("ffn_config");
  return found != config.end() && found->is_object() ? *found : config;
}

void read_mlp(const ConfigReader& reader, const Json& whole, const std::string& family,
              Model& model) {
  const Json& config = part_with_experts(whole);
  model.is_gated =
      std::find(std::begin(kUngated), std::end(kUngated), family) == std::end(kUngated);
  model.experts = std::max<int64_t>(
      1, reader.count(config,
                      {"num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"}));
  auto intermediate = reader.find(
      config, {"intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size"}, kMostSize);
  if (model.is_routed()) {
    const auto of_expert = reader.find(config, {"moe_intermediate_size"}, kMostSize);
    if (of_expert) intermediate = of_expert;
    model.experts_a_row =
        reader.count(config, {"num_experts_per_tok", "moe_top_k", "moe_topk"}, model.experts);
    model.has_shared_experts =
        family.starts_with("llama4") ||
        reader.count(config, {"n_shared_experts", "shared_expert_intermediate_size",
                              "shared_intermediate_size"}) > 0;
    model.unrouted_layers = unrouted_layers_of(reader, config, model.layers);
  }
  if (!intermediate && model.is_gated) reader.require(config, {"intermediate_size"}, kMostSize);
  const int64_t times = reader.find(config, {"expansion_ratio"}, 64).value_or(4);
  model.intermediate = intermediate.value_or(times * model.hidden);
  // The first Qwen counts gate and up together.
  if (family == "qwen") model.intermediate /= 2;
}

Model model_of(const ConfigReader& reader, const Json& whole) {
  if (!whole.is_object()) reader.fail("a model is no JSON object");
  const Json& config = part_with_sizes(whole);
  const std::string family = text_of(config, "model_type");
  Model model;
  model.hidden = reader.require(config, {"hidden_size", "n_embd", "n_embed", "d_model"}, kMostSize);
  model.heads =
      reader.require(config, {"num_attention_heads", "num_heads", "n_head", "n_heads"}, kMostSize);
  model.layers = reader.require(config, {"num_hidden_layers", "num_layers", "n_layer", "n_layers"},
                                kMostLayers);
  if (reader.find(config, {"kv_lora_rank"}, kMostSize)) {
    model.latent_v_dim = reader.require(config, {"v_head_dim"}, kMostSize);
  }
  model.kv_heads = kv_heads_of(reader, config, family, model.heads);
  const auto head_dim = reader.find(config, {"head_dim", "kv_channels"}, kMostSize);
  if (!head_dim && model.hidden % model.heads != 0 && model.latent_v_dim == 0) {
    reader.fail(fmt::format("{} heads do not divide the hidden size {}, and there is no 'head_dim'",
                            model.heads, model.hidden));
  }
  model.head_dim =
      model.latent_v_dim > 0 ? model.latent_v_dim : head_dim.value_or(model.hidden / model.heads);
  read_mlp(reader, config, family, model);
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
    models.back().experts_measured = text_of(config, "experts_measured");
  }
  return models;
}

}  // namespace stretto
