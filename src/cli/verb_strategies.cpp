// stretto strategies: the presets and the coordinates of the space that they are points of.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/json.h"
#include "cli/table.h"
#include "cli/verb.h"
#include "stretto/schedule.h"

namespace stretto::cli {
namespace {

struct Value {
  std::string_view text, meaning;
};
struct Coordinate {
  std::string_view name;
  std::string_view asks;
  std::vector<Value> values;
};

std::vector<Coordinate> coordinates() {
#define STRETTO_ROW(name, text, meaning) {text, meaning},
  return {{"granularity", "what is communicated at once", {STRETTO_GRANULARITIES(STRETTO_ROW)}},
          {"order", "which tiles are computed first", {STRETTO_ORDERS(STRETTO_ROW)}},
          {"mover", "who moves the data", {STRETTO_MOVERS(STRETTO_ROW)}},
          {"sync", "how consumers learn of it", {STRETTO_SYNCS(STRETTO_ROW)}},
          {"reduction", "where partial sums meet", {STRETTO_REDUCTIONS(STRETTO_ROW)}},
          {"reuse", "how the next run may overwrite", {STRETTO_REUSES(STRETTO_ROW)}},
          {"own",
           "where a gather's tiles take the rank's own rows from",
           {STRETTO_OWN_ROWS(STRETTO_ROW)}},
          {"start", "when a gather's tile begins", {STRETTO_STARTS(STRETTO_ROW)}},
          {"rows", "how many rows a run may have", {STRETTO_ROW_COUNTS(STRETTO_ROW)}},
          {"gemm", "who multiplies", {STRETTO_GEMMS(STRETTO_ROW)}},
          {"collectives", "who makes those of mover nccl", {STRETTO_COLLECTIVES_BY(STRETTO_ROW)}},
          {"permute",
           "who puts tokens that choose experts into their order",
           {STRETTO_PERMUTES(STRETTO_ROW)}}};
#undef STRETTO_ROW
}

// Parameters have numbers for values; their text form is that of Schedule.
constexpr Value kParameters[] = {
    {"partials", "type in which partial sums travel: bf16, fp16, fp32"},
    {"tile", "tile shape, rows x columns: 128x256"},
    {"swizzle", "row tiles that a column sweep covers before it moves on"},
    {"chunks", "row blocks a shard is cut into (granularity chunk)"},
    {"groups",
     "sizes of groups: of waves that travel at once (granularity waves), of chunks that a kernel "
     "computes (granularity chunk, sync event)"},
    {"comm-sms", "SMs taken from compute for communication blocks and reducers"},
    {"split-k", "ranges of K that a tile is computed in, side by side, then added in fp32"},
    {"k-phases", "ranges of K in which rows are gathered; tiles begin when the first is there"},
    {"cluster",
     "lanes that compute tiles of the same columns side by side: 2 load B once for both (gathers, "
     "mover comm-blocks, granularity tile)"},
    {"algorithm",
     "which of the 8 that cuBLAS may propose for a product, its first 0 (gemm library)"}};

constexpr size_t kLabelWidth = 20;

std::string print() {
  std::string out = "Strategies: named points of the schedule space\n";
  for (const Preset& preset : presets()) {
    out += '\n' + fmt::format("{}\n", preset.name);
    out += labelled("  idea", preset.idea, kLabelWidth);
    out += labelled("  stands for", preset.stands_for, kLabelWidth);
    out += labelled("  source", preset.source, kLabelWidth);
  }
  out +=
      "\nCoordinates: --schedule takes a strategy's name and changes, for example\n"
      "  --schedule tiles,mover=comm-blocks,comm-sms=8,tile=128x128\n";
  for (const Coordinate& coordinate : coordinates()) {
    out += fmt::format("\n{}: {}\n", coordinate.name, coordinate.asks);
    for (const Value& value : coordinate.values) {
      out += labelled(fmt::format("  {}", value.text), value.meaning, kLabelWidth);
    }
  }
  out += "\nparameters\n";
  for (const Value& value : kParameters) {
    out += labelled(fmt::format("  {}", value.text), value.meaning, kLabelWidth);
  }
  return out;
}

Outcome run(const Options& options) {
  if (!options.json) return {print(), kGood};
  Json json = json_header("strategies");
  json["strategies"] = Json::array();
  for (const Preset& preset : presets()) {
    json["strategies"].push_back({{"name", preset.name},
                                  {"idea", preset.idea},
                                  {"stands_for", preset.stands_for},
                                  {"source", preset.source}});
  }
  json["coordinates"] = Json::array();
  for (const Coordinate& coordinate : coordinates()) {
    Json values = Json::array();
    for (const Value& value : coordinate.values) {
      values.push_back({{"value", value.text}, {"meaning", value.meaning}});
    }
    json["coordinates"].push_back(
        {{"name", coordinate.name}, {"meaning", coordinate.asks}, {"values", std::move(values)}});
  }
  json["parameters"] = Json::array();
  for (const Value& value : kParameters) {
    json["parameters"].push_back({{"name", value.text}, {"meaning", value.meaning}});
  }
  return {dump(json), kGood};
}

}  // namespace

Verb strategies_verb() {
  return {"strategies", "List the strategies and the coordinates of the schedule space",
          [](CLI::App&, Options&) {}, run, "stretto strategies"};
}

}  // namespace stretto::cli
