// A transformer as its linears: what tensor parallelism cuts, and what communication goes with.
//
// Sizes come from a configuration file as Hugging Face publishes it (config.json), or from
// models/published.json, which has those of models that many people run.
#pragma once

#include <cstdint>
#include <functional>
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
  bool is_gated = true;  // gate and up, one behind another in one weight
  // Latent attention: what comes before the heads has products of its own, and a head of V this
  // size. 0: the usual attention.
  int64_t latent_v_dim = 0;
  // More than one: the MLP is routed to `experts_a_row` of them, each as wide as `intermediate`.
  int64_t experts = 1, experts_a_row = 0;  // the latter 0: the file does not say it
  bool has_shared_experts = false;         // that every row takes beside them
  int64_t unrouted_layers = 0;             // of `layers`: their MLP is a usual one
  std::string experts_measured;            // published models: the results of a rank by itself

  bool is_routed() const { return experts > 1; }
};

// Of one layer, in the order in which they run, without experts. Where ranks are more than heads of
// K and V, these are on several ranks, and so are counted as often.
std::vector<Linear> linears_of(const Model& model, int ranks = 1);

// What a layer computes besides, of which no operator makes a part.
struct Unserved {
  std::string part, why;
};
std::vector<Unserved> unserved_parts(const Model& model);
// The next fewer and the next more ranks that can share something, "4 or 8"; empty where none up to
// twice as many can.
std::string nearest_ranks(int ranks, const std::function<bool(int)>& can_share);
// Why so many ranks cannot share a linear, and how many can; empty when they can, by the model's
// heads.
std::string why_not_shared(const Model& model, const Linear& linear, int ranks);
// Throws UsageError, which lists what there is.
const Linear& find_linear(const Model& model, const std::vector<Linear>& linears,
                          std::string_view name);

// A config.json, from anywhere. Throws UsageError naming the file, the key and what would be right.
Model parse_model(std::string_view text, std::string_view file_name);

// Those of models/published.json, in its order.
const std::vector<Model>& published_models();
// The results of a layer of such experts, which one rank of several took by itself; empty: none was
// measured.
std::string measured_experts(const Model& model);
// A published model's name, or a file: a name with a slash, or one that ends in .json. Throws
// UsageError, SystemError.
Model load_model(std::string_view name);

}  // namespace stretto
