// The shipped operators: operators/*.graph, carried inside the binary.
#include <algorithm>

#include "core/embedded_text.h"
#include "core/text.h"
#include "op/graph_text.h"
#include "stretto/error.h"

namespace stretto {

std::span<const std::shared_ptr<const GraphText>> known_graphs() {
  static const auto all = [] {
    std::vector<std::shared_ptr<const GraphText>> graphs;
    for (const EmbeddedText& file : shipped_operators()) {
      graphs.push_back(parse_graph(file.text, file.name));
    }
    return graphs;
  }();
  return all;
}

namespace {

constexpr std::string_view kWide = "-i64";

// Those with ids, which are of 64 bits then.
std::span<const std::shared_ptr<const GraphText>> wide_graphs() {
  static const auto all = [] {
    std::vector<std::shared_ptr<const GraphText>> graphs;
    for (const auto& graph : known_graphs()) {
      auto wide = std::make_shared<GraphText>(*graph);
      bool has_ids = false;
      for (InputText& input : wide->inputs) {
        if (input.dtype != DType::i32) continue;
        input.dtype = DType::i64;
        has_ids = true;
      }
      if (!has_ids) continue;
      wide->name += kWide;
      wide->canonical = print(*wide);
      graphs.push_back(std::move(wide));
    }
    return graphs;
  }();
  return all;
}

}  // namespace

std::shared_ptr<const GraphText> find_graph(std::string_view name) {
  for (const auto& graph : name.ends_with(kWide) ? wide_graphs() : known_graphs()) {
    if (graph->name == name) return graph;
  }
  return nullptr;
}

Operator make_operator(std::string_view name, const Sizes& sizes, int ranks, DType dtype) {
  if (auto text = find_graph(name)) return make_graph(std::move(text), sizes, ranks, dtype);
  std::vector<std::string_view> known;
  for (const auto& graph : known_graphs()) known.push_back(graph->name);
  throw UsageError(unknown_word("operator", name, known));
}

}  // namespace stretto
