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
#define STRETTO_VALUE(name, text, meaning) {text, meaning},
#define STRETTO_ROW(type, field, key, absent, kinds, table, asks) \
  {key, asks, {table(STRETTO_VALUE)}},
  return {STRETTO_CHOICES(STRETTO_ROW)};
#undef STRETTO_ROW
#undef STRETTO_VALUE
}

// Parameters have numbers for values; their text form is that of Schedule.
#define STRETTO_NUMBER(field, key, absent, kinds, meaning) {key, meaning},
#define STRETTO_OTHER(field, key, meaning) {key, meaning},
constexpr Value kParameters[] = {STRETTO_PARAMETERS(STRETTO_NUMBER, STRETTO_OTHER)};
#undef STRETTO_OTHER
#undef STRETTO_NUMBER

// Between '/', beside the schedules: docs/cli.md has their grammar.
constexpr Value kOperatorWords[] = {
    {"split=2",
     "rows of the whole operator in so many parts, up to 16: one communicates while another is "
     "computed. Stands for TokenWeave (arXiv 2505.11329) and the two batches of DeepSeek-V3"},
    {"NAME:TEXT", "a schedule of the product whose segment has that name"},
    {"NAME:mover=...", "who moves the rows of an edge at no product, or norms those behind one"},
};
static_assert(kMostParts == 16);

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
  out += "\nwords of an operator, with '/' between: split=2/tiles/down:slices\n";
  for (const Value& word : kOperatorWords) {
    out += labelled(fmt::format("  {}", word.text), word.meaning, kLabelWidth);
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
  json["operator_words"] = Json::array();
  for (const Value& word : kOperatorWords) {
    json["operator_words"].push_back({{"name", word.text}, {"meaning", word.meaning}});
  }
  return {dump(json), kGood};
}

}  // namespace

Verb strategies_verb() {
  return {"strategies", "List the strategies and the coordinates of the schedule space",
          [](CLI::App&, Options&) {}, run, "stretto strategies"};
}

}  // namespace stretto::cli
