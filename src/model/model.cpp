#include "model/model.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/text.h"
#include "stretto/error.h"

namespace stretto {

std::vector<Linear> linears_of(const Model& model, int ranks) {
  const int64_t kv_heads = std::max<int64_t>(model.kv_heads, std::min<int64_t>(ranks, model.heads));
  const int64_t attention = model.heads * model.head_dim;
  std::vector<Linear> linears;
  if (model.latent_v_dim > 0) {
    linears.push_back({"out", Cut::by_inputs, model.hidden, model.heads * model.latent_v_dim});
  } else {
    linears.push_back(
        {"qkv", Cut::by_outputs, attention + 2 * kv_heads * model.head_dim, model.hidden});
    linears.push_back({"out", Cut::by_inputs, model.hidden, attention});
  }
  if (model.is_routed()) return linears;
  if (model.is_gated) {
    linears.push_back({"gate_up", Cut::by_outputs, 2 * model.intermediate, model.hidden});
  } else {
    linears.push_back({"up", Cut::by_outputs, model.intermediate, model.hidden});
  }
  linears.push_back({"down", Cut::by_inputs, model.hidden, model.intermediate});
  return linears;
}

std::vector<Unserved> unserved_parts(const Model& model) {
  std::vector<Unserved> parts;
  if (model.latent_v_dim > 0) {
    parts.push_back({"latent", "the products of latent attention before its heads: no operator"});
  }
  parts.push_back(
      {"attention", "every rank computes its own heads and sends nothing: no operator"});
  if (model.has_shared_experts) {
    parts.push_back({"shared",
                     "experts that every row takes: moe-ep-shared has them, and these figures "
                     "are without"});
  }
  if (model.unrouted_layers > 0) {
    parts.push_back({"unrouted", fmt::format("the MLP of {} of the layers is routed to no experts "
                                             "and is not in these figures",
                                             model.unrouted_layers)});
  }
  parts.push_back({"the rest", "norms, embeddings, the head of the model and sampling"});
  return parts;
}

std::string nearest_ranks(int ranks, const std::function<bool(int)>& can_share) {
  int fewer = ranks - 1, more = ranks + 1;
  const int most = 2 * ranks;
  while (fewer > 0 && !can_share(fewer)) --fewer;
  while (more <= most && !can_share(more)) ++more;
  if (more > most) return fewer > 0 ? std::to_string(fewer) : "";
  return fewer > 0 ? fmt::format("{} or {}", fewer, more) : std::to_string(more);
}

namespace {

// Fewer heads of K and V than ranks are held several times, by equally many ranks each.
bool shares_kv_heads(const Model& model, int ranks) {
  const int64_t kv = model.kv_heads;
  return kv % ranks == 0 || (kv > 0 && ranks % kv == 0);
}

}  // namespace

std::string why_not_shared(const Model& model, const Linear& linear, int ranks) {
  const bool is_attention = linear.name == "qkv" || linear.name == "out";
  if (!is_attention) return "";
  const bool has_kv = linear.name != "out";
  const std::string others = nearest_ranks(ranks, [&](int other) {
    return model.heads % other == 0 && (!has_kv || shares_kv_heads(model, other));
  });
  if (model.heads % ranks != 0) {
    return fmt::format("{} heads are no multiple of {} ranks: take {} ranks", model.heads, ranks,
                       others);
  }
  if (!has_kv || shares_kv_heads(model, ranks)) return "";
  return fmt::format(
      "{} heads of K and V neither divide among {} ranks nor repeat evenly: take {} ranks",
      model.kv_heads, ranks, others);
}

const Linear& find_linear(const Model& model, const std::vector<Linear>& linears,
                          std::string_view name) {
  std::vector<std::string_view> known;
  for (const Linear& linear : linears) {
    if (linear.name == name) return linear;
    known.push_back(linear.name);
  }
  throw UsageError(unknown_word("layer of " + model.name, name, known));
}

}  // namespace stretto
