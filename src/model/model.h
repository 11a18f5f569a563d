// A transformer as its linears: what tensor parallelism cuts, and what communication goes with.
//
// Sizes come from a configuration file as Hugging Face publishes it (config.json), or from
// models/published.json, which has those of models that many people run.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stretto {

// How ranks share a linear's weight [N, K]: its rows (a column-parallel linear, behind a gather) or
// its columns (a row-parallel linear, whose terms are reduced).
enum class Cut : uint8_t { by_outputs, by_inputs };

struct Linear {
  std::string name;  // "qkv", "out", "gate_up" or "up", "down"
  Cut cut = Cut::by_outputs;
  int64_t n = 0, k = 0;  // of the whole weight
};

struct Model {
  std::string name;
  std::string source;  // where the sizes were published; empty for a file of the user's
  int64_t hidden = 0, intermediate = 0;
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  int64_t layers = 0;
  int64_t experts = 0;   // more than one: the MLP is routed, and none of the linears below
  bool is_gated = true;  // gate and up, one behind another in one weight
};

// Of one layer, in the order in which they run. Where ranks are more than heads of K and V, these
// are on several ranks, and so are counted as often.
std::vector<Linear> linears_of(const Model& model, int ranks = 1);
// Why so many ranks cannot share a linear; empty when they can, by the model's heads.
std::string why_not_shared(const Model& model, const Linear& linear, int ranks);
// Throws UsageError, which lists what there is.
const Linear& find_linear(const Model& model, const std::vector<Linear>& linears,
                          std::string_view name);

// A config.json, from anywhere. Throws UsageError naming the file, the key and what would be right.
Model parse_model(std::string_view text, std::string_view file_name);

// Those of models/published.json, in its order.
const std::vector<Model>& published_models();
// A published model's name, or a file: a name with a slash, or one that ends in .json. Throws
// UsageError, SystemError.
Model load_model(std::string_view name);

}  // namespace stretto
