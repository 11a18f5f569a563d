#include "cli/operator_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/text.h"
#include "model/model.h"
#include "op/names.h"
#include "op/read_graph.h"
#include "stretto/error.h"

namespace stretto::cli {
namespace {

// The first size of a graph counts rows.
int64_t size_option(std::string_view option, std::string_view text, bool are_rows) {
  if (text.empty()) {
    throw UsageError(fmt::format("{} is empty: give a whole number from 1 to {}", option, kMaxDim));
  }
  if (are_rows && size_from(text) == 0) {
    throw UsageError(fmt::format("{} is 0: {}", option, kNoPlanOfNoRows));
  }
  return size_number(option, text, 0, kMaxDim);
}

// Whether --m, --n and --k are all that it needs.
bool options_name_sizes_of(const GraphText& graph) {
  const std::vector<std::string>& sizes = sizes_of(graph);
  return std::all_of(sizes.begin(), sizes.end(), [](const std::string& size) {
    return size == "m" || size == "n" || size == "k";
  });
}

// "gemm-rs --m 2048 --n 1024 --k 4096 --ranks 8": how to ask for a graph.
std::string example_of(const GraphText& graph) {
  constexpr std::pair<std::string_view, int> kUsual[] = {
      {"m", 2048},   {"n", 1024},    {"k", 4096},       {"h", 4096},
      {"f", 14336},  {"t", 2048},    {"heads", 32},     {"kv-heads", 8},
      {"groups", 8}, {"best", 4},    {"head-dim", 128}, {"experts", 64},
      {"slices", 2}, {"tables", 64}, {"dim", 128},      {"pool", 20}};
  constexpr int kChoices = 4;  // of a row, where there are experts
  const bool has_experts =
      std::count(sizes_of(graph).begin(), sizes_of(graph).end(), "experts") > 0;
  std::string example = name_of(graph);
  const bool has_options = options_name_sizes_of(graph);
  for (const std::string& size : sizes_of(graph)) {
    const auto usual = std::find_if(std::begin(kUsual), std::end(kUsual),
                                    [&](const auto& one) { return one.first == size; });
    const int value = size == "k" && has_experts  ? kChoices
                      : usual == std::end(kUsual) ? 1024
                                                  : usual->second;
    example +=
        has_options ? fmt::format(" --{} {}", size, value) : fmt::format(" {}={}", size, value);
  }
  return example + " --ranks 8";
}

// Collects sizes from wherever they are given, each once.
class SizesGiven {
 public:
  explicit SizesGiven(const GraphText& graph) : graph_(graph), names_(sizes_of(graph)) {}

  void give(std::string_view name, int64_t value) {
    for (const auto& [known, before] : sizes_) {
      if (known == name) throw UsageError(fmt::format("{} is given twice", name));
    }
    sizes_.emplace_back(name, value);
  }

  void give_ranks(std::string_view text) {
    if (!ranks_.empty()) throw UsageError("ranks are given twice");
    ranks_ = text;
  }

  // "m=4K", "4Kx8Kx28K", "4Kx8Kx28K@8".
  void give_word(const std::string& word) {
    const size_t equals = word.find('=');
    if (equals != std::string::npos) {
      const std::string name = word.substr(0, equals);
      if (!has(name)) refuse(word);
      return give(name,
                  size_option(name, std::string_view(word).substr(equals + 1), name == names_[0]));
    }
    const size_t at = word.find('@');
    const auto values = split(std::string_view(word).substr(0, at), 'x');
    if (values.size() != names_.size() || !size_from(values[0])) refuse(word);
    for (size_t i = 0; i < values.size(); ++i) {
      give(names_[i], size_option(names_[i], values[i], i == 0));
    }
    if (at == std::string::npos) return;
    if (at + 1 == word.size()) {
      throw UsageError(
          fmt::format("{} has no number of ranks behind @: give one, as {}8, or leave @ out",
                      quote(word), word));
    }
    give_ranks(std::string_view(word).substr(at + 1));
  }

  bool has(std::string_view name) const {
    return std::find(names_.begin(), names_.end(), name) != names_.end();
  }
  const std::string& ranks() const { return ranks_; }

  Sizes take() {
    std::vector<std::string> missing;
    for (const std::string& name : names_) {
      const auto given = [&](const auto& size) { return size.first == name; };
      if (std::none_of(sizes_.begin(), sizes_.end(), given)) {
        missing.push_back(options_name_sizes_of(graph_) ? "--" + name : name + "=");
      }
    }
    if (!missing.empty()) {
      throw UsageError(fmt::format("{} needs its sizes: {} missing; for example: {}",
                                   name_of(graph_), join(missing, ", "), example_of(graph_)));
    }
    return std::move(sizes_);
  }

 private:
  [[noreturn]] void refuse(const std::string& word) const {
    throw UsageError(
        fmt::format("{} is no size of {}: give {}=VALUE, or the {} numbers in this order, as {}",
                    quote(word), name_of(graph_), join(names_, "=VALUE, "), names_.size(),
                    join(std::vector<std::string>(names_.size(), "64"), "x")));
  }

  const GraphText& graph_;
  const std::vector<std::string>& names_;
  Sizes sizes_;
  std::string ranks_;
};

// "llama-3-70b:down", or a config.json in place of the name.
struct Layer {
  Model model;
  std::string name;

  // Where ranks are more than heads of K and V, these are on several ranks.
  Linear of_ranks(int ranks) const {
    const std::vector<Linear> linears = linears_of(model, ranks);
    const Linear& linear = find_linear(model, linears, name);
    if (const std::string why = why_not_shared(model, linear, ranks); !why.empty()) {
      throw UsageError(fmt::format("--layer {}:{}: {}", model.name, name, why));
    }
    return linear;
  }
};

Layer layer_from(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) {
    throw UsageError(
        fmt::format("--layer {} is not MODEL:LINEAR, as in llama-3-70b:down", quote(text)));
  }
  return {load_model(text.substr(0, colon)), text.substr(colon + 1)};
}

void give_layer(const GraphText& graph, const Layer& layer, int ranks, SizesGiven& sizes) {
  const Linear linear = layer.of_ranks(ranks);
  const auto kind = product_kind_from(name_of(graph));
  if (!kind) throw UsageError("--layer is for operators of one product, as gemm-rs");
  const bool by_outputs = name_of(graph) == "ag-gemm" || name_of(graph) == "col-gemm";
  if (by_outputs != (linear.cut == Cut::by_outputs)) {
    throw UsageError(fmt::format("{} of {} is cut by {}: take {}", linear.name, layer.model.name,
                                 by_outputs ? "inputs (row-parallel)" : "outputs (column-parallel)",
                                 by_outputs ? "gemm-rs or gemm-ar" : "ag-gemm or col-gemm"));
  }
  sizes.give("n", linear.n);
  sizes.give("k", linear.k);
}

}  // namespace

std::optional<int64_t> size_from(std::string_view text) {
  int64_t unit = 1;
  if (!text.empty()) {
    const char last = text.back();
    if (last == 'K' || last == 'k') unit = 1024;
    if (last == 'M' || last == 'm') unit = 1024 * 1024;
  }
  if (unit > 1) text.remove_suffix(1);
  const auto value = int_from(text);
  if (!value || *value > kMaxDim || *value < -kMaxDim) return unit == 1 ? value : std::nullopt;
  return *value * unit;
}

int64_t size_number(std::string_view option, std::string_view text, int64_t absent, int64_t most) {
  if (text.empty()) return absent;
  const auto value = size_from(text);
  if (!value || *value < 1 || *value > most) {
    throw UsageError(
        fmt::format("{} {} is not a whole number from 1 to {}", option, quote(text), most));
  }
  return *value;
}

std::string operator_named(const Options& options) {
  if (!options.subject.empty() || options.layer.empty()) return options.subject;
  return layer_from(options.layer).of_ranks(1).cut == Cut::by_outputs ? "ag-gemm" : "gemm-rs";
}

int ranks_option(const Options& options) {
  return static_cast<int>(whole_number("--ranks", options.ranks, 8, 1, kMaxRanks));
}

DType dtype_option(const Options& options) {
  const std::string_view dtype = options.dtype.empty() ? "bf16" : std::string_view(options.dtype);
  const auto known = dtype_from(dtype);
  if (!known) throw UsageError(unknown_dtype(dtype));
  return *known;
}

namespace {

struct Bound {
  Sizes sizes;
  int ranks;
  DType dtype;
};

Bound bound_by(const std::shared_ptr<const GraphText>& graph, const Options& options) {
  SizesGiven sizes(*graph);
  for (const auto& [name, text] :
       {std::pair{"m", &options.m}, std::pair{"n", &options.n}, std::pair{"k", &options.k}}) {
    if (text->empty()) continue;
    if (!sizes.has(name)) {
      throw UsageError(fmt::format("{} has no size {}; it has {}", name_of(*graph), name,
                                   join(sizes_of(*graph), ", ")));
    }
    sizes.give(name, size_option(fmt::format("--{}", name), *text, name == sizes_of(*graph)[0]));
  }
  for (const std::string& word : options.sizes) sizes.give_word(word);
  Options ranks = options;
  if (!options.ranks.empty() && !sizes.ranks().empty()) {
    throw UsageError("ranks are given twice: by @ and by --ranks");
  }
  if (!sizes.ranks().empty()) ranks.ranks = sizes.ranks();
  if (!options.layer.empty()) {
    give_layer(*graph, layer_from(options.layer), ranks_option(ranks), sizes);
  }
  return {sizes.take(), ranks_option(ranks), dtype_option(options)};
}

Bound bound_or_refused(const std::shared_ptr<const GraphText>& graph, const Options& options) {
  try {
    return bound_by(graph, options);
  } catch (const UsageError& error) {
    throw with_faults_of(graph, error);
  }
}

}  // namespace

Operator resolve_operator(std::shared_ptr<const GraphText> graph, const Options& options) {
  const Bound bound = bound_or_refused(graph, options);
  return make_graph(std::move(graph), bound.sizes, bound.ranks, bound.dtype);
}

}  // namespace stretto::cli
