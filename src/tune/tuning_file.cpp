#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "core/text.h"
#include "machine/find_machine.h"
#include "stretto/error.h"
#include "stretto/tune.h"
#include "tune/limits.h"
#include "tune/own_graph.h"
#include "tune/usable_tuning.h"

namespace stretto {
namespace {

// A kernel of a graph's own is code, which a file of times must not have compiled and executed.
OperatorSchedule without_kernels(OperatorSchedule schedule) {
  if (std::any_of(schedule.products.begin(), schedule.products.end(),
                  [](const Schedule& one) { return !one.kernel.empty(); })) {
    throw UsageError("a file of times takes no kernel of a graph's own: only who runs it does");
  }
  return schedule;
}

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;
constexpr int kDepth = 8;  // a tuning file needs 5

class TuningParser {
 public:
  TuningParser(std::string_view text, std::string_view file_name)
      : file_(quote(file_name, 200)), root_(parse(text)) {}

  Tuning run() {
    Tuning tuning;
    for_each_operator(
        [&](const Json& object, const std::string& at) { read_operator(object, at, tuning); });
    return tuning;
  }

  UsableTuning run_on_what_is_usable() {
    UsableTuning usable;
    for_each_operator([&](const Json& object, const std::string& at) {
      try {
        read_operator(object, at, usable.tuning);
      } catch (const UsageError& error) {
        const auto commit = object.is_object() ? object.find("commit") : object.end();
        const bool says = commit != object.end() && commit->is_string();
        usable.skipped.push_back({error.what(), says ? commit->get<std::string>() : ""});
      }
    });
    return usable;
  }

 private:
  template <typename Read>
  void for_each_operator(Read read) const {
    if (!root_.is_object()) fail("", "must be an object");
    allow_keys(root_, "", {"stretto_tuning", "operators"});
    const Json& version = member(root_, "", "stretto_tuning");
    if (!version.is_number_integer() || version != kVersion) {
      fail("stretto_tuning", fmt::format("must be {}: other versions are not known", kVersion));
    }
    const Json& operators = list(root_, "", "operators", kMostTunedOperators);
    for (size_t i = 0; i < operators.size(); ++i) {
      read(operators[i], fmt::format("operators[{}]", i));
    }
  }

  [[noreturn]] void fail(const std::string& key, const std::string& problem) const {
    throw UsageError(key.empty() ? fmt::format("tuning file {} {}", file_, problem)
                                 : fmt::format("tuning file {}: {} {}", file_, key, problem));
  }

  Json parse(std::string_view text) const {
    if (text.size() > kMostTuningBytes) {
      fail("", fmt::format("has {} bytes; at most {} are read", text.size(), kMostTuningBytes));
    }
    const auto shallow = [&](int depth, Json::parse_event_t, Json&) {
      if (depth > kDepth) fail("", "is nested too deeply");
      return true;
    };
    try {
      return Json::parse(text, shallow);
    } catch (const Json::parse_error& error) {
      fail("", fmt::format("is not JSON at {}", place_of_byte(text, error.byte)));
    } catch (const Json::exception& error) {
      fail("", fmt::format("is not usable JSON: {}", quote(error.what(), 200)));
    }
  }

  void allow_keys(const Json& object, const std::string& at,
                  std::initializer_list<std::string_view> known) const {
    if (!object.is_object()) fail(at, "must be an object");
    for (const auto& [key, value] : object.items()) {
      if (std::find(known.begin(), known.end(), key) != known.end()) continue;
      const std::vector<std::string_view> names(known);
      fail(at, "has an " + unknown_word("key", key, names));
    }
  }

  static std::string join_key(const std::string& at, std::string_view key) {
    return at.empty() ? std::string(key) : fmt::format("{}.{}", at, key);
  }

  const Json& member(const Json& object, const std::string& at, const char* key) const {
    const auto found = object.find(key);
    if (found == object.end()) fail(join_key(at, key), "is missing");
    return *found;
  }

  const Json& list(const Json& object, const std::string& at, const char* key, size_t most) const {
    const Json& value = member(object, at, key);
    if (!value.is_array() || value.size() > most) {
      fail(join_key(at, key), fmt::format("must be an array of at most {}", most));
    }
    return value;
  }

  std::string text(const Json& object, const std::string& at, const char* key, size_t most) const {
    const Json& value = member(object, at, key);
    if (!value.is_string() || value.get_ref<const std::string&>().size() > most) {
      fail(join_key(at, key), fmt::format("must be a text of at most {} characters", most));
    }
    return value.get<std::string>();
  }

  std::string optional_text(const Json& object, const std::string& at, const char* key) const {
    return object.contains(key) ? text(object, at, key, kMostTuningText) : "";
  }

  double time(const Json& object, const std::string& at, const char* key) const {
    const Json& value = member(object, at, key);
    const double time = value.is_number() ? value.get<double>() : 0;
    if (!std::isfinite(time) || time < kLeastTimeUs || time > kMostTimeUs) {
      fail(join_key(at, key), fmt::format("must be a number of microseconds from {:g} to {:g}",
                                          kLeastTimeUs, kMostTimeUs));
    }
    return time;
  }

  std::optional<double> optional_time(const Json& object, const std::string& at,
                                      const char* key) const {
    if (!object.contains(key)) return std::nullopt;
    return time(object, at, key);
  }

  double turn(const Json& object, const std::string& at) const {
    const Json& value = member(object, at, "turn_ms");
    const double turn = value.is_number() ? value.get<double>() : -1;
    if (!(turn >= 0 && turn <= kMostTurnMs)) {
      fail(join_key(at, "turn_ms"),
           fmt::format("must be a number of milliseconds from 0 to {}", kMostTurnMs));
    }
    return turn;
  }

  // What a bad operator or schedule says of itself, with the place in front.
  template <typename Parse>
  auto checked(const std::string& at, Parse parse) const {
    try {
      return parse();
    } catch (const UsageError& error) {
      fail(at, fmt::format("is wrong: {}", error.what()));
    }
  }

  // Null: the operator is a shipped one.
  std::shared_ptr<const GraphText> own_graph(const Json& object, const std::string& at) const {
    if (!object.contains("graph")) return nullptr;
    const std::string lines = text(object, at, "graph", kMostTunedGraph);
    return checked(join_key(at, "graph"), [&] { return parse_graph(lines, "graph"); });
  }

  void read_operator(const Json& object, const std::string& at, Tuning& tuning) {
    allow_keys(object, at,
               {"operator", "graph", "machine", "gpu", "commit", "date", "turn_ms", "library_us",
                "measured"});
    TunedGraph tuned;
    const std::string described = text(object, at, "operator", kMostTuningText);
    const std::shared_ptr<const GraphText> own = own_graph(object, at);
    tuned.op =
        checked(join_key(at, "operator"), [&] { return parse_operator(described, {}, own); });
    if (own && !can_be_filed(tuned.op)) {
      fail(join_key(at, "graph"), "is one product of two weights, or of what no ranks share");
    }
    tuned.machine = text(object, at, "machine", kMostTuningText);
    if (!is_machine_name(tuned.machine)) {
      fail(join_key(at, "machine"), "must be letters, digits, '-', '_' and '.'");
    }
    tuned.gpu = optional_text(object, at, "gpu");
    tuned.commit = optional_text(object, at, "commit");
    tuned.date = optional_text(object, at, "date");
    if (object.contains("turn_ms")) tuned.turn_ms = turn(object, at);
    if (object.contains("library_us")) tuned.library_us = time(object, at, "library_us");
    const Json& measured = list(object, at, "measured", kMostMeasured);
    if (measured.empty()) fail(join_key(at, "measured"), "must not be empty");
    for (size_t i = 0; i < measured.size(); ++i) {
      tuned.measured.push_back(
          read_measured(measured[i], fmt::format("{}.measured[{}]", at, i), tuned.op));
    }
    const Operator op = tuned.op;
    tuning.add(op, std::move(static_cast<TunedSchedules&>(tuned)));
  }

  Measured read_measured(const Json& object, const std::string& at, const Operator& op) {
    allow_keys(object, at, {"schedule", "time_us", "low_us", "high_us", "cold_us", "predicted_us"});
    Measured measured;
    measured.schedule = text(object, at, "schedule", kMostScheduleText);
    checked(join_key(at, "schedule"), [&] {
      auto [machine, is_new] = machines_.try_emplace(op.ranks);
      if (is_new) machine->second = default_machine(op.ranks);
      return without_kernels(parse_schedules(measured.schedule, op, machine->second));
    });
    measured.time_us = time(object, at, "time_us");
    measured.low_us = time(object, at, "low_us");
    measured.high_us = time(object, at, "high_us");
    if (measured.low_us > measured.time_us || measured.time_us > measured.high_us) {
      fail(at, "must have low_us <= time_us <= high_us");
    }
    measured.cold_us = optional_time(object, at, "cold_us");
    measured.predicted_us = optional_time(object, at, "predicted_us");
    return measured;
  }

  std::string file_;
  Json root_;
  std::map<int, Machine> machines_;  // by ranks
};

double rounded(double time_us) { return std::round(time_us * 100) / 100; }

}  // namespace

namespace {

template <typename Tuned>
void put(Tuned tuned, std::vector<Tuned>& all) {
  std::stable_sort(tuned.measured.begin(), tuned.measured.end(),
                   [](const Measured& a, const Measured& b) { return a.time_us < b.time_us; });
  const auto same = std::find_if(all.begin(), all.end(), [&](const Tuned& known) {
    return known.op == tuned.op && known.machine == tuned.machine && known.gpu == tuned.gpu;
  });
  if (same == all.end()) {
    all.push_back(std::move(tuned));
  } else {
    *same = std::move(tuned);
  }
}

}  // namespace

void Tuning::add(TunedOperator tuned) { put(std::move(tuned), operators_); }
void Tuning::add(TunedGraph tuned) { put(std::move(tuned), graphs_); }
void Tuning::add(const Operator& op, TunedSchedules tuned) {
  if (const Segment* const only = op.only_product()) {
    add(TunedOperator{std::move(tuned), *only});
  } else {
    add(TunedGraph{std::move(tuned), op});
  }
}

void Tuning::add_all(const Tuning& other) {
  for (const TunedOperator& tuned : other.operators_) add(tuned);
  for (const TunedGraph& tuned : other.graphs_) add(tuned);
}

Tuning parse_tuning(std::string_view text, std::string_view file_name) {
  return TuningParser(text, file_name).run();
}

UsableTuning parse_usable_tuning(std::string_view text, std::string_view file_name) {
  return TuningParser(text, file_name).run_on_what_is_usable();
}

std::string print_tuning(const Tuning& tuning) {
  Json root = {{"stretto_tuning", kVersion}, {"operators", Json::array()}};
  const auto add = [&](const std::string& op, const std::string& graph,
                       const TunedSchedules& tuned) {
    Json object = {{"operator", op}};
    if (!graph.empty()) object["graph"] = graph;
    object["machine"] = tuned.machine;
    if (!tuned.gpu.empty()) object["gpu"] = tuned.gpu;
    if (!tuned.commit.empty()) object["commit"] = tuned.commit;
    if (!tuned.date.empty()) object["date"] = tuned.date;
    if (tuned.turn_ms > 0) object["turn_ms"] = tuned.turn_ms;
    if (tuned.library_us > 0) object["library_us"] = rounded(tuned.library_us);
    object["measured"] = Json::array();
    for (const Measured& measured : tuned.measured) {
      Json one = {{"schedule", measured.schedule},
                  {"time_us", rounded(measured.time_us)},
                  {"low_us", rounded(measured.low_us)},
                  {"high_us", rounded(measured.high_us)}};
      if (measured.cold_us) one["cold_us"] = rounded(*measured.cold_us);
      if (measured.predicted_us) one["predicted_us"] = rounded(*measured.predicted_us);
      object["measured"].push_back(std::move(one));
    }
    root["operators"].push_back(std::move(object));
  };
  for (const TunedOperator& tuned : tuning.operators()) add(to_string(tuned.op), "", tuned);
  for (const TunedGraph& tuned : tuning.graphs()) {
    add(to_string(tuned.op), text_of_own(tuned.op), tuned);
  }
  return root.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace stretto
