#include "cli/model_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "cli/table.h"
#include "cli/terminal.h"

namespace stretto::cli {
namespace {

constexpr size_t kLabelWidth = 12;

std::string mebibytes(size_t bytes) {
  return fmt::format("{:.1f}", static_cast<double>(bytes) / (1024.0 * 1024.0));
}

std::string gain_text(double gain) {
  const std::string text = fmt::format("{:.2f}", gain);
  if (gain < 0.995) return paint(Style::bad, text);
  return gain >= 1.005 ? paint(Style::good, text) : text;
}

// "ag-gemm", "10240", "8192" of a product; of experts how many there are and how wide they are.
std::string size_of(const PartEstimate& part, std::string_view name) {
  for (const auto& [known, value] : part.op.sizes) {
    if (known == name) return std::to_string(value);
  }
  return "";
}

std::string from_of(const PartEstimate& part) {
  if (part.is_measured) return "measured";
  return part.runs_on_gpus ? "predicted" : "planned";
}

std::string print_layer(const LayerEstimate& layer, const Model& model) {
  Table table({fmt::format("{} rows", layer.shape.rows), "operator", "N", "K", "library", "Stretto",
               "gain", "buffers", "from"});
  table.add({"", "", "", "", "us", "us", "x", "MiB", ""});
  for (const PartEstimate& part : layer.parts) {
    if (!part.refused.empty()) {
      table.add_remark(part.name, "not estimated: " + part.refused);
      continue;
    }
    const bool is_product = part.op.only_product() != nullptr;
    table.add({part.name, part.op.name(), is_product ? size_of(part, "n") : "",
               is_product ? size_of(part, "k") : "",
               fmt::format("{:.1f}{}", part.library_us, part.has_library ? "" : "*"),
               fmt::format("{:.1f}", part.stretto_us), gain_text(part.gain()),
               mebibytes(part.symmetric_bytes), from_of(part)});
  }
  if (!layer.is_whole()) return table.print();
  table.add({"layer", "", "", "", fmt::format("{:.1f}", layer.library_us()),
             fmt::format("{:.1f}", layer.stretto_us()), gain_text(layer.gain()),
             mebibytes(layer.most_bytes()), ""});
  const auto ms = [&](double us) {
    const int64_t alike = model.layers - model.unrouted_layers;
    return fmt::format("{:.1f} ms", us * static_cast<double>(alike) / 1000);
  };
  return table.print() + fmt::format("{} layers: {} with the library, {} with Stretto\n",
                                     model.layers - model.unrouted_layers, ms(layer.library_us()),
                                     ms(layer.stretto_us()));
}

std::string heading_of(const ModelReport& report) {
  const Model& model = report.model;
  const ModelShape& shape = report.shape;
  const std::string mlp = model.is_routed()
                              ? fmt::format("{} experts of {}, {} a row", model.experts,
                                            model.intermediate, model.experts_a_row)
                              : fmt::format("intermediate size {}", model.intermediate);
  std::string out =
      wrap(fmt::format("{}: {} layers, hidden size {}, {}, {} heads of {}{}", model.name,
                       model.layers, model.hidden, mlp, model.heads, model.head_dim,
                       model.latent_v_dim > 0 ? " (latent attention)"
                                              : fmt::format(" ({} for K and V)", model.kv_heads)),
           2);
  out += wrap(fmt::format("{} rank{} of {}, {}; {}", shape.ranks, shape.ranks == 1 ? "" : "s",
                          report.machine.name, to_string(shape.dtype),
                          shape.all_reduce ? "terms all-reduced, all rows on every rank"
                                           : "rows gathered and scattered (sequence parallelism)"),
              2);
  if (!model.source.empty()) out += wrap("source: " + model.source, 2);
  return out;
}

std::string of_rows(int64_t rows) { return is_few(rows) ? "fewer than 512" : "512 and more"; }

// How far off predictions are, for few rows and for many where there are both.
std::string errors_of(const ModelReport& report) {
  std::string out;
  bool has_few = false, has_many = false;
  for (const LayerEstimate& layer : report.layers) {
    bool& has = is_few(layer.shape.rows) ? has_few : has_many;
    if (std::exchange(has, true)) continue;
    const SimulationError error = simulation_error(report.tuning, report.machine, layer.shape.rows);
    out += labelled(
        "predicted",
        error.measurements == 0
            ? "simulated; nothing was measured on this machine to compare with"
            : fmt::format("simulated. Where {} rows were measured on {} ({} times) it was {:.0f} % "
                          "off in the median, and nine in ten times within {:.0f} %",
                          of_rows(layer.shape.rows), report.machine.name, error.measurements,
                          100 * error.median, 100 * error.nine_in_ten),
        kLabelWidth);
  }
  return out;
}

std::string legend_of(const ModelReport& report) {
  std::string out =
      labelled("library", "cuBLAS, then NCCL", kLabelWidth) +
      labelled("Stretto", "the schedule that auto takes (--json names it)", kLabelWidth) +
      labelled("buffers",
               "of a rank, for what others send it; of a layer the most. Slots of low-latency "
               "collectives are besides",
               kLabelWidth) +
      labelled("measured", "on GPUs, and kept in the tuning file", kLabelWidth) + errors_of(report);
  if (report.model.is_routed() && !report.layers.empty()) {
    const PartEstimate& experts = report.layers.front().parts.back();
    if (!experts.runs_on_gpus) {
      out += labelled("planned", "predicted for a plan that GPUs have no kernels for yet",
                      kLabelWidth);
    }
    const std::string results = measured_experts(report.model);
    out += labelled(
        "*",
        "cuBLAS has no such product: our kernels, then all communication exposed. " +
            (results.empty() ? "No layer of such experts was measured"
                             : "Layers of these experts were measured of one rank of eight by "
                               "itself, without its links: " +
                                   results),
        kLabelWidth);
  }
  std::string parts;
  for (const Unserved& one : unserved_parts(report.model)) {
    out += labelled(std::exchange(parts, "-").empty() ? "not served" : "",
                    fmt::format("{}: {}", one.part, one.why), kLabelWidth);
  }
  return out;
}

Json json_of(const PartEstimate& part) {
  Json json = {{"linear", part.name}};
  if (part.op.text) json["operator"] = to_json(part.op);
  json["refused"] = part.refused;
  if (!part.refused.empty()) return json;
  json["from"] = part.is_measured ? "measured" : "predicted";
  json["runs_on_gpus"] = part.runs_on_gpus;
  json["library"] = part.has_library ? "cuBLAS, then NCCL" : "our kernels, nothing overlapped";
  json["library_us"] = part.library_us;
  json["stretto_us"] = part.stretto_us;
  json["gain"] = part.gain();
  json["schedule"] = part.schedule;
  json["reason"] = part.reason;
  json["symmetric_bytes"] = part.symmetric_bytes;
  return json;
}

Json json_of(const LayerEstimate& layer) {
  Json json = {{"rows", layer.shape.rows}, {"linears", Json::array()}};
  for (const PartEstimate& part : layer.parts) json["linears"].push_back(json_of(part));
  if (layer.is_whole()) {
    json["library_us"] = layer.library_us();
    json["stretto_us"] = layer.stretto_us();
    json["gain"] = layer.gain();
    json["symmetric_bytes"] = layer.most_bytes();
    json["runs_on_gpus"] = layer.runs_on_gpus();
  }
  return json;
}

}  // namespace

std::string ModelReport::print() const {
  std::string out = heading_of(*this);
  for (const LayerEstimate& layer : layers) out += "\n" + print_layer(layer, model);
  return out + "\n" + legend_of(*this);
}

Json ModelReport::json() const {
  Json json = json_header("model");
  json["model"] = model.name;
  json["source"] = model.source;
  json["layers"] = model.layers;
  json["layers_alike"] = model.layers - model.unrouted_layers;
  json["hidden"] = model.hidden;
  json["intermediate"] = model.intermediate;
  json["heads"] = model.heads;
  json["kv_heads"] = model.kv_heads;
  json["head_dim"] = model.head_dim;
  json["latent_attention"] = model.latent_v_dim > 0;
  json["experts"] = model.experts;
  json["experts_a_row"] = model.experts_a_row;
  json["experts_measured"] = measured_experts(model);
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
  json["not_served"] = Json::array();
  for (const Unserved& one : unserved_parts(model)) {
    json["not_served"].push_back({{"part", one.part}, {"why", one.why}});
  }
  return json;
}

}  // namespace stretto::cli
