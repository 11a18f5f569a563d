// stretto strategies: the presets and the coordinates of the space that they are points of.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/json.h"
#include "cli/table.h"
#include "cli/verb.h"
#include "core/text.h"
#include "schedule/systems.h"
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
#define STRETTO_OTHER(field, key, absent, meaning) {key, meaning},
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

// The points of a system, those with one text together, and in what each differs. What it has for
// products that move nothing is left to who asks for all (--json).
struct PointsOfText {
  std::string_view text;
  std::vector<std::string> serve, differ;
};

std::vector<PointsOfText> points_of(const System& system) {
  std::vector<PointsOfText> points;
  const auto add_once = [](std::vector<std::string>& texts, std::string_view text) {
    if (std::find(texts.begin(), texts.end(), text) == texts.end()) texts.emplace_back(text);
  };
  for (const NearestPoint& point : system.points) {
    if (point.sort == SortOfProduct::local) continue;
    auto found = std::find_if(points.begin(), points.end(),
                              [&](const PointsOfText& one) { return one.text == point.text; });
    if (found == points.end()) found = points.insert(found, {point.text, {}, {}});
    add_once(found->serve, to_string(point.sort));
    add_once(found->differ, point.differs);
  }
  return points;
}

std::string print_systems() {
  std::string out =
      "\nSystems: names for the points that are nearest to what others have built,\n"
      "by Stretto's kernels; they go where strategies do: --strategy comet,deepep\n";
  for (const System& system : systems()) {
    out += fmt::format("\n{}\n", system.name);
    out +=
        labelled("  stands for", fmt::format("{} ({})", system.title, system.source), kLabelWidth);
    if (system.splits) {
      out +=
          labelled("  parts", "split=2 of 1024 rows and more, unless split= is given", kLabelWidth);
    }
    for (const PointsOfText& point : points_of(system)) {
      out += labelled("  point", fmt::format("{}, for {}", point.text, join(point.serve, ", ")),
                      kLabelWidth);
      out += labelled("    differs", join(point.differ, "; "), kLabelWidth);
    }
  }
  return out;
}

Json json_of_systems() {
  Json all = Json::array();
  for (const System& system : systems()) {
    Json points = Json::array();
    for (const NearestPoint& point : system.points) {
      points.push_back({{"for", to_string(point.sort)},
                        {"schedule", point.text},
                        {"differs", point.differs},
                        {"few_rows_only", point.by_ids}});
    }
    all.push_back({{"name", system.name},
                   {"stands_for", system.title},
                   {"source", system.source},
                   {"splits", system.splits},
                   {"points", std::move(points)}});
  }
  return all;
}

std::string print() {
  std::string out = "Strategies: named points of the schedule space\n";
  for (const Preset& preset : presets()) {
    out += '\n' + fmt::format("{}\n", preset.name);
    out += labelled("  idea", preset.idea, kLabelWidth);
    out += labelled("  stands for", preset.stands_for, kLabelWidth);
    out += labelled("  source", preset.source, kLabelWidth);
  }
  out += print_systems();
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
  json["systems"] = json_of_systems();
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
