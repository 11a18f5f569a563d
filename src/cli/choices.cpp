#include "cli/choices.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "core/parallel.h"
#include "core/text.h"
#include "gpu/shared_gpus.h"
#include "schedule/set_rows.h"
#include "schedule/short_text.h"
#include "schedule/systems.h"
#include "stretto/error.h"
#include "stretto/lower.h"
#include "stretto/serve.h"
#include "stretto/tune.h"
#include "tables/plan_limits.h"

namespace stretto::cli {
namespace {

Choice choose(std::string name, NamedSchedule named, const Operator& op, const Machine& machine) {
  std::vector<std::string> refused = legal(op, named.schedule, machine);
  return {std::move(name), std::move(named.schedule), std::move(refused), std::move(named.reason)};
}

// By the name of a preset or a system.
Choice choose_named(std::string_view name, const Operator& op, const Machine& machine,
                    RowCount rows) {
  NamedSchedule named = read_schedules(name, op, machine, {}, rows);
  set_rows(named.schedule, rows);
  return choose(std::string(name), std::move(named), op, machine);
}

Choice choose_auto(const Operator& op, const Machine& machine, RowCount rows) {
  // What was measured with all SMs of a GPU says nothing of ranks that share them.
  const Tuning tuning = cuda::ranks_a_gpu() > 1 ? Tuning() : load_tuning();
  AutoSchedules found = auto_schedules(op, machine, tuning, rows);
  Choice choice = choose("auto", {std::move(found.schedule), std::move(found.reason)}, op, machine);
  choice.is_by_auto = true;
  return choice;
}

constexpr size_t kSweptMore = 4;  // as many as `tune` measures of what simulation suggests

std::vector<Choice> choose_sweep(const Operator& op, const Machine& machine, RowCount rows) {
  if (rows == RowCount::bucket) {
    throw UsageError(
        "sweep is what tune measures, plans of fixed rows: name schedules, or take auto or all");
  }
  std::vector<Choice> choices;
  for (const GraphCandidate& candidate : candidates_to_measure(op, machine, kSweptMore)) {
    choices.push_back({short_text(candidate.schedule, op, machine), candidate.schedule});
  }
  return choices;
}

}  // namespace

std::vector<std::string> schedules_in(std::string_view list) {
  std::vector<std::string> schedules;
  for (const std::string_view part : split(list, ';')) {
    bool has_begun = false;
    for (const std::string_view word : split(part, ',')) {
      const bool is_change =
          word.find('=') != std::string_view::npos && !word.starts_with("split=");
      if (has_begun && is_change) {
        schedules.back() += ',';
        schedules.back() += word;
      } else {
        schedules.emplace_back(word);
      }
      has_begun = true;
    }
  }
  return schedules;
}

std::vector<Choice> resolve_strategies(std::string_view text, const Operator& op,
                                       const Machine& machine, RowCount rows,
                                       std::span<const std::string_view> words) {
  if (text == "sweep") return choose_sweep(op, machine, rows);
  std::vector<Choice> choices;
  if (text == "all") {
    for (const Preset& preset : presets()) {
      choices.push_back(choose_named(preset.name, op, machine, rows));
    }
    return choices;
  }
  for (const std::string& name : schedules_in(text)) {
    if (name.empty()) {
      throw UsageError(fmt::format("the list of strategies {} has an empty name", quote(text)));
    }
    if (name == "all") {
      throw UsageError("all stands alone: it is every preset; name the others, or leave all out");
    }
    if (name == "sweep") {
      throw UsageError("sweep stands alone: it is every schedule that tune measures");
    }
    if (name == "auto") {
      choices.push_back(choose_auto(op, machine, rows));
    } else if (name.find_first_of("=,/:") != std::string::npos) {
      choices.push_back(
          choose(name, read_schedules(name, op, machine, kAutoWords, rows), op, machine));
    } else {
      if (find_system(name) == nullptr) find_preset(name, name == text ? words : kAutoWords);
      choices.push_back(choose_named(name, op, machine, rows));
    }
  }
  return choices;
}

namespace {

// Those who give --rows have not said rows=bucket, which it stands for: so much for what no
// schedule helps with.
void require_served_rows(const std::string& rows, const Operator& op) {
  const auto chooses = [](const OperatorSegment& one) {
    return one.product && one.product->is_routed();
  };
  const bool is_routed = std::any_of(op.segments.begin(), op.segments.end(), chooses);
  const std::string why = is_routed ? "rows that choose their matrices are all there in every run"
                                    : why_rows_are_fixed(op);
  if (why.empty()) return;
  throw UsageError(fmt::format("--rows {} of {}: {}: leave --rows out, or give {}={}", quote(rows),
                               op.name(), why, op.sizes.front().first, rows));
}

}  // namespace

std::vector<Choice> resolve_choices(const Options& options, const Operator& op,
                                    const Machine& machine) {
  if (!options.strategy.empty() && !options.schedule.empty()) {
    throw UsageError(
        "--strategy and --schedule exclude each other; to change a preset: --schedule "
        "tiles,tile=64x128");
  }
  const bool served = !options.rows.empty();
  if (served) require_served_rows(options.rows, op);
  std::vector<Choice> choices;
  if (!options.schedule.empty() && options.schedule != "auto") {
    const RowCount rows = served ? RowCount::bucket : RowCount::fixed;
    NamedSchedule named = read_schedules(options.schedule, op, machine, kAutoWords, rows);
    const bool says = options.schedule.find("rows=") != std::string::npos;
    if (served && !says) set_rows(named.schedule, RowCount::bucket);
    choices.push_back(choose("schedule", std::move(named), op, machine));
  } else {
    const std::string preset = options.strategy.empty() ? "tiles" : options.strategy;
    const std::string& names = options.schedule.empty() ? preset : options.schedule;
    choices = served ? resolve_strategies(names, op, machine, RowCount::bucket, kServedWords)
                     : resolve_strategies(names, op, machine);
  }

  require_served(choices, needs_all(options));
  return choices;
}

bool needs_all(const Options& options) {
  return options.strategy != "all" && options.strategy != "sweep";
}

namespace {

std::string names_of(const std::vector<Choice>& choices) {
  std::vector<std::string> names;
  for (const Choice& choice : choices) names.push_back(choice.name);
  return join(names, ", ");
}

std::vector<std::string> reasons_of_all(const std::vector<Choice>& choices) {
  std::vector<std::string> common = choices.front().refused;
  for (const Choice& choice : choices) {
    std::erase_if(common, [&](const std::string& why) {
      return std::find(choice.refused.begin(), choice.refused.end(), why) == choice.refused.end();
    });
  }
  return common;
}

}  // namespace

void require_served(const std::vector<Choice>& choices, bool need_all) {
  // Names by reason: what is wrong with an operator is wrong for every strategy.
  std::vector<std::pair<std::string, std::string>> refusals;
  size_t num_refused = 0;
  for (const Choice& choice : choices) {
    if (!choice.refused.empty()) ++num_refused;
    for (const std::string& why : choice.refused) {
      const auto same = std::find_if(refusals.begin(), refusals.end(),
                                     [&](const auto& other) { return other.second == why; });
      if (same == refusals.end()) {
        refusals.emplace_back(choice.name, why);
      } else {
        same->first += ", " + choice.name;
      }
    }
  }
  if (num_refused == 0 || (num_refused < choices.size() && !need_all)) return;
  if (num_refused == choices.size() && choices.size() > 1) {
    // What else is wrong with some does not matter then.
    if (const auto common = reasons_of_all(choices); !common.empty()) {
      throw UsageError(
          fmt::format("{} cannot serve this: {}", names_of(choices), join(common, "; ")));
    }
  }
  std::vector<std::string> lines;
  const std::string* before = nullptr;  // whose reasons go on
  for (const auto& [names, why] : refusals) {
    const bool goes_on = before != nullptr && *before == names;
    lines.push_back(goes_on ? why : fmt::format("{} cannot serve this: {}", names, why));
    before = &names;
  }
  throw UsageError(join(lines, "; "));
}

void refuse_what_no_gpu_runs(std::vector<Choice>& choices, const Operator& op, int64_t rows,
                             const Machine& machine) {
  for_each_in_parallel(choices.size(), choices.size(), [&](size_t i) {
    if (!choices[i].refused.empty()) return;
    Plan plan = lower(op, choices[i].schedule, machine);
    if (rows != op.rows()) plan = at_rows(plan, rows);
    choices[i].refused = cuda::why_not_on_cuda(plan);
  });
}

void say_why(const std::vector<Choice>& choices, const Operator& op, const Machine& machine) {
  for (const Choice& choice : choices) {
    if (choice.reason.empty()) continue;
    const std::string text = short_text(choice.schedule, op, machine);
    std::fputs(fmt::format("{}: {}, {}\n", choice.name, text, choice.reason).c_str(), stderr);
  }
}

}  // namespace stretto::cli
