// stretto model: what a model's linears gain, layer by layer.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "cli/model_report.h"
#include "cli/operator_words.h"
#include "cli/progress.h"
#include "cli/request.h"
#include "cli/table.h"
#include "cli/verb.h"
#include "core/text.h"
#include "gpu/device.h"
#include "report/page.h"
#include "stretto/error.h"

namespace stretto::cli {
namespace {

constexpr size_t kMostRows = 64;

std::vector<int64_t> rows_of(const std::string& list) {
  std::vector<int64_t> rows;
  const std::string_view given = list.empty() ? "64,2K,8K" : std::string_view(list);
  for (const std::string_view text : split(given, ',')) {
    if (text.empty()) throw UsageError("--rows has an empty number; give a list as 64,2K,8K");
    rows.push_back(size_number("--rows", text, 0, kMaxDim));
  }
  if (rows.size() > kMostRows) {
    throw UsageError(fmt::format("--rows takes at most {} numbers", kMostRows));
  }
  return rows;
}

Outcome list(const Options& options) {
  Table table({"model", "layers", "hidden", "intermediate", "heads", "K and V", "head"});
  Json json = json_header("model");
  json["models"] = Json::array();
  for (const Model& model : published_models()) {
    table.add({model.name, std::to_string(model.layers), std::to_string(model.hidden),
               model.is_routed() ? fmt::format("{} x {}", model.experts, model.intermediate)
                                 : std::to_string(model.intermediate),
               std::to_string(model.heads), std::to_string(model.kv_heads),
               std::to_string(model.head_dim)});
    json["models"].push_back({{"name", model.name},
                              {"layers", model.layers},
                              {"hidden", model.hidden},
                              {"intermediate", model.intermediate},
                              {"experts", model.experts},
                              {"heads", model.heads},
                              {"kv_heads", model.kv_heads},
                              {"head_dim", model.head_dim},
                              {"source", model.source}});
  }
  if (options.json) return {dump(json)};
  return {
      table.print() + '\n' +
      wrap("What one gains: stretto model NAME --tp 8 --rows 64,2K,8K. A config.json is read too.",
           0)};
}

std::vector<LayerEstimate> estimate_layers(const Model& model, ModelShape shape,
                                           const std::vector<int64_t>& rows, const Machine& machine,
                                           const Tuning& tuning) {
  std::vector<LayerEstimate> layers;
  Progress progress;
  const std::vector<Linear> linears = linears_of(model, shape.ranks);
  const size_t parts = rows.size() * (linears.size() + (model.is_routed() ? 1 : 0));
  double done = 0;
  const auto show = [&](const std::string& name) {
    progress.show(fmt::format("{} rows of {}", shape.rows, name),
                  done++ / static_cast<double>(parts));
  };
  for (const int64_t some : rows) {
    shape.rows = some;
    layers.push_back({shape, {}});
    for (const Linear& linear : linears) {
      show(linear.name);
      PartEstimate found{linear.name, {}};
      if (const Segment op = product_of(linear, shape); problems(op).empty()) found.op = op;
      found.refused = why_not_shared(model, linear, shape.ranks);
      if (found.refused.empty()) found = estimate(linear, shape, machine, tuning);
      layers.back().parts.push_back(std::move(found));
    }
    if (!model.is_routed()) continue;
    show("experts");
    layers.back().parts.push_back(estimate_experts(model, shape, machine, tuning));
  }
  return layers;
}

Outcome run(const Options& options) {
  if (options.subject.empty()) return list(options);
  if (options.html && options.json) {
    throw UsageError("--html and --json are two results; leave one out");
  }
  if (options.html && options.output.empty()) {
    throw UsageError("a page is a file: -o model.html, then open it in a browser");
  }
  const std::vector<int64_t> rows = rows_of(options.rows);
  const Model model = load_model(options.subject);
  if (options.deal_experts && !model.is_routed()) {
    throw UsageError(fmt::format("--ep deals experts to ranks, and {} has none", model.name));
  }
  ModelShape shape;
  shape.ranks = static_cast<int>(whole_number("--tp", options.tp, 8, 1, kMaxRanks));
  shape.dtype = dtype_option(options);
  if (shape.dtype == DType::fp32) {
    throw UsageError("GPUs multiply bf16 and fp16; fp32 is for the emulator: take one of these");
  }
  shape.all_reduce = options.all_reduce;
  shape.deals_experts = options.deal_experts;
  const Machine machine = resolve_machine(options, shape.ranks, {.name = cuda::gpu_name()});
  const Tuning tuning = load_tuning();
  const ModelReport report{model, machine, tuning, shape,
                           estimate_layers(model, shape, rows, machine, tuning)};
  if (options.json) return {dump(report.json())};
  if (options.html) return {model_page(model.name, dump(report.json()))};
  return {report.print()};
}

void add_options(CLI::App& app, Options& options) {
  add_option(app, "model", options.subject,
             "A published model's name, or a config.json; none lists the models", "NAME|FILE");
  add_option(app, "--tp", options.tp, "Ranks that share each linear [8]", "R");
  add_option(app, "--rows", options.rows, "Rows of the activations (tokens) [64,2K,8K]", "LIST");
  add_flag(app, "--all-reduce", options.all_reduce,
           "Without sequence parallelism: every rank has all rows, and terms are all-reduced");
  add_flag(app, "--ep", options.deal_experts,
           "Experts are dealt to ranks (moe-ep), instead of each cut over them (moe-tp)");
  add_flag(app, "--html", options.html, "Write a page that shows it, to -o FILE");
  add_option(app, "--dtype", options.dtype, "bf16 or fp16 [bf16]", "TYPE");
  add_option(app, "--machine", options.machine, "Name or file [h200x8]", "NAME");
}

}  // namespace

Verb model_verb() {
  return {"model", "Say what a model's linears gain, measured or predicted", add_options, run,
          "stretto model llama-3-70b --tp 8 --rows 64,2K,8K"};
}

}  // namespace stretto::cli
