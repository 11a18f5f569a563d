// stretto model: what a model's linears gain, layer by layer.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/json.h"
#include "cli/model_estimate.h"
#include "cli/operator_words.h"
#include "cli/progress.h"
#include "cli/request.h"
#include "cli/table.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "core/text.h"
#include "gpu/device.h"
#include "stretto/error.h"

namespace stretto::cli {
namespace {

constexpr size_t kLabelWidth = 12, kMostRows = 64;

// All linears of a layer at one number of rows.
struct LayerEstimate {
  ModelShape shape;
  std::vector<LinearEstimate> linears;

  bool is_whole() const {
    return std::all_of(linears.begin(), linears.end(),
                       [](const LinearEstimate& one) { return one.refused.empty(); });
  }
  double library_us() const { return sum(&LinearEstimate::library_us); }
  double stretto_us() const { return sum(&LinearEstimate::stretto_us); }
  double gain() const { return library_us() / stretto_us(); }
  // Of the linear that needs most: they run one after the other.
  size_t most_bytes() const {
    size_t most = 0;
    for (const LinearEstimate& one : linears) most = std::max(most, one.symmetric_bytes);
    return most;
  }

 private:
  double sum(double LinearEstimate::*time) const {
    double all = 0;
    for (const LinearEstimate& one : linears) all += one.*time;
    return all;
  }
};

std::vector<int64_t> rows_of(const std::string& list) {
  std::vector<int64_t> rows;
  for (const std::string_view text : split(list.empty() ? "64,2K,8K" : list, ',')) {
    if (text.empty()) throw UsageError("--rows has an empty number; give a list as 64,2K,8K");
    rows.push_back(size_number("--rows", text, 0, kMaxDim));
  }
  if (rows.size() > kMostRows) {
    throw UsageError(fmt::format("--rows takes at most {} numbers", kMostRows));
  }
  return rows;
}

std::string mebibytes(size_t bytes) {
  return fmt::format("{:.1f}", static_cast<double>(bytes) / (1024.0 * 1024.0));
}

std::string gain_text(double gain) {
  const std::string text = fmt::format("{:.2f}", gain);
  return gain >= 1.005 ? paint(Style::good, text) : text;
}

std::string print(const LayerEstimate& layer, const Model& model) {
  Table table({fmt::format("{} rows", layer.shape.rows), "operator", "N", "K", "library", "Stretto",
               "gain", "buffers", "from"});
  table.add({"", "", "", "", "us", "us", "x", "MiB", ""});
  for (const LinearEstimate& one : layer.linears) {
    if (!one.refused.empty()) {
      table.add_remark(one.linear.name, "cannot be shared: " + one.refused);
      continue;
    }
    table.add({one.linear.name, std::string(to_string(one.op.kind)), std::to_string(one.linear.n),
               std::to_string(one.linear.k), fmt::format("{:.1f}", one.library_us),
               fmt::format("{:.1f}", one.stretto_us), gain_text(one.gain()),
               mebibytes(one.symmetric_bytes), one.is_measured ? "measured" : "predicted"});
  }
  if (!layer.is_whole()) return table.print();
  table.add({"layer", "", "", "", fmt::format("{:.1f}", layer.library_us()),
             fmt::format("{:.1f}", layer.stretto_us()), gain_text(layer.gain()),
             mebibytes(layer.most_bytes()), ""});
  const auto ms = [&](double us) {
    return fmt::format("{:.1f} ms", us * static_cast<double>(model.layers) / 1000);
  };
  return table.print() + fmt::format("{} layers: {} with the library, {} with Stretto\n",
                                     model.layers, ms(layer.library_us()), ms(layer.stretto_us()));
}

std::string legend(const std::vector<LayerEstimate>& layers, const Tuning& tuning,
                   const Machine& machine) {
  std::string out =
      labelled("library", "cuBLAS, then NCCL", kLabelWidth) +
      labelled("Stretto", "the schedule that auto takes (--json names it)", kLabelWidth) +
      labelled("buffers", "of a rank, which others write for the linear; of a layer the most",
               kLabelWidth) +
      labelled("measured", "on GPUs, and kept in the tuning file", kLabelWidth);
  bool has_few = false, has_many = false;
  for (const LayerEstimate& layer : layers) {
    bool& has = layer.shape.rows < 512 ? has_few : has_many;
    if (std::exchange(has, true)) continue;
    const SimulationError error = simulation_error(tuning, machine, layer.shape.rows);
    if (error.measurements == 0) {
      out +=
          labelled("predicted", "simulated; nothing was measured on this machine to compare with",
                   kLabelWidth);
      continue;
    }
    out += labelled(
        "predicted",
        fmt::format("simulated. Where {} rows were measured on {} ({} times) it was "
                    "{:.0f} % off in the median, and nine in ten times within {:.0f} %",
                    layer.shape.rows < 512 ? "fewer than 512" : "512 and more", machine.name,
                    error.measurements, 100 * error.median, 100 * error.nine_in_ten),
        kLabelWidth);
  }
  return out +
         labelled("not counted", "attention itself, norms, embeddings and sampling", kLabelWidth);
}

std::string heading_of(const Model& model, const ModelShape& shape, const Machine& machine) {
  std::string out =
      wrap(fmt::format("{}: {} layers, hidden size {}, {}, {} heads of {} ({} for K and V)",
                       model.name, model.layers, model.hidden,
                       model.experts > 1 ? fmt::format("{} experts", model.experts)
                                         : fmt::format("intermediate size {}", model.intermediate),
                       model.heads, model.head_dim, model.kv_heads),
           2);
  out += wrap(fmt::format("{} rank{} of {}, {}; {}", shape.ranks, shape.ranks == 1 ? "" : "s",
                          machine.name, to_string(shape.dtype),
                          shape.all_reduce ? "terms all-reduced, all rows on every rank"
                                           : "rows gathered and scattered (sequence parallelism)"),
              2);
  if (model.experts > 1) {
    out += wrap("The MLP is routed to experts: only attention's linears are estimated.", 2);
  }
  if (!model.source.empty()) out += wrap("source: " + model.source, 2);
  return out;
}

Json json_of(const LayerEstimate& layer) {
  Json json = {{"rows", layer.shape.rows}, {"linears", Json::array()}};
  for (const LinearEstimate& one : layer.linears) {
    Json linear = {{"linear", one.linear.name},
                   {"operator", to_json(Operator(one.op))},
                   {"refused", one.refused}};
    if (one.refused.empty()) {
      linear["from"] = one.is_measured ? "measured" : "predicted";
      linear["library_us"] = one.library_us;
      linear["stretto_us"] = one.stretto_us;
      linear["gain"] = one.gain();
      linear["schedule"] = one.schedule;
      linear["reason"] = one.reason;
      linear["symmetric_bytes"] = one.symmetric_bytes;
    }
    json["linears"].push_back(std::move(linear));
  }
  if (layer.is_whole()) {
    json["library_us"] = layer.library_us();
    json["stretto_us"] = layer.stretto_us();
    json["gain"] = layer.gain();
    json["symmetric_bytes"] = layer.most_bytes();
  }
  return json;
}

Outcome list(const Options& options) {
  Table table({"model", "layers", "hidden", "intermediate", "heads", "K and V", "head"});
  Json json = json_header("model");
  json["models"] = Json::array();
  for (const Model& model : published_models()) {
    table.add({model.name, std::to_string(model.layers), std::to_string(model.hidden),
               model.experts > 1 ? "experts" : std::to_string(model.intermediate),
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

Outcome run(const Options& options) {
  if (options.subject.empty()) return list(options);
  const std::vector<int64_t> rows = rows_of(options.rows);
  const Model model = load_model(options.subject);
  ModelShape shape;
  shape.ranks = static_cast<int>(whole_number("--tp", options.tp, 8, 1, kMaxRanks));
  shape.dtype = dtype_option(options);
  if (shape.dtype == DType::fp32) {
    throw UsageError("GPUs multiply bf16 and fp16; fp32 is for the emulator: take one of these");
  }
  shape.all_reduce = options.all_reduce;
  const Machine machine = resolve_machine(options, shape.ranks, {.name = cuda::gpu_name()});
  const Tuning tuning = load_tuning();
  std::vector<LayerEstimate> layers;
  {
    Progress progress;
    const std::vector<Linear> linears = linears_of(model, shape.ranks);
    double done = 0;
    for (const int64_t some : rows) {
      shape.rows = some;
      layers.push_back({shape, {}});
      for (const Linear& linear : linears) {
        progress.show(fmt::format("{} rows of {}", some, linear.name),
                      done++ / static_cast<double>(rows.size() * linears.size()));
        LinearEstimate found{linear, product_of(linear, shape)};
        found.refused = why_not_shared(model, linear, shape.ranks);
        if (found.refused.empty()) found = estimate(linear, shape, machine, tuning);
        layers.back().linears.push_back(std::move(found));
      }
    }
  }
  if (options.json) {
    Json json = json_header("model");
    json["model"] = model.name;
    json["layers"] = model.layers;
    json["machine"] = machine.name;
    json["ranks"] = shape.ranks;
    json["dtype"] = to_string(shape.dtype);
    json["all_reduce"] = shape.all_reduce;
    json["results"] = Json::array();
    for (const LayerEstimate& layer : layers) {
      json["results"].push_back(json_of(layer));
      const SimulationError error = simulation_error(tuning, machine, layer.shape.rows);
      json["results"].back()["prediction_error"] = {{"measurements", error.measurements},
                                                    {"median", error.median},
                                                    {"nine_in_ten", error.nine_in_ten}};
    }
    return {dump(json)};
  }
  std::string out = heading_of(model, shape, machine);
  for (const LayerEstimate& layer : layers) out += "\n" + print(layer, model);
  return {out + "\n" + legend(layers, tuning, machine)};
}

void add_options(CLI::App& app, Options& options) {
  add_option(app, "model", options.subject,
             "A published model's name, or a config.json; none lists the models", "NAME|FILE");
  add_option(app, "--tp", options.tp, "Ranks that share each linear [8]", "R");
  add_option(app, "--rows", options.rows, "Rows of the activations (tokens) [64,2K,8K]", "LIST");
  add_flag(app, "--all-reduce", options.all_reduce,
           "Without sequence parallelism: every rank has all rows, and terms are all-reduced");
  add_option(app, "--dtype", options.dtype, "bf16 or fp16 [bf16]", "TYPE");
  add_option(app, "--machine", options.machine, "Name or file [h200x8]", "NAME");
}

}  // namespace

Verb model_verb() {
  return {"model", "Say what a model's linears gain, measured or predicted", add_options, run,
          "stretto model llama-3-70b --tp 8 --rows 64,2K,8K"};
}

}  // namespace stretto::cli
