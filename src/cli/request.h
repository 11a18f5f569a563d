// From typed options to what the stages take: an operator with schedules, or a plan from a file.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/options.h"
#include "stretto/machine.h"
#include "stretto/operator.h"
#include "stretto/plan.h"
#include "stretto/schedule.h"

namespace stretto::cli {

class Progress;

// One schedule to look at, under the name that tables show.
struct Choice {
  std::string name;
  Schedule schedule;
  std::vector<std::string> refused = {};  // why it cannot serve; empty when it can
  std::string reason = {};                // why `auto` took it
};

struct Request {
  Operator op;       // what is computed
  Operator planned;  // what is planned for: with --rows it has as many rows or more
  Machine machine;
  std::vector<Choice> choices;    // of an operator
  std::optional<Plan> file_plan;  // of a file, then `choices` is empty
  std::string file_name;
};

// Reads and checks everything; throws UsageError or SystemError. When schedules are named and all
// of them are refused the reasons are thrown; `--strategy all` keeps refused ones as choices.
Request resolve(const Options& options, int ranks_a_gpu = 1);

// The operators that a benchmark is of: the one that is given, or those of --shapes. Throws
// UsageError, SystemError.
std::vector<Operator> resolve_operators(const Options& options);
// The machine that plans are made for; where so many ranks share a GPU, with a rank's SMs. Throws
// UsageError, SystemError.
Machine resolve_machine(const Options& options, int ranks, int ranks_a_gpu = 1);
// "auto", "all" or presets, comma separated; with `;` between them also schedules. Throws
// UsageError for words that mean nothing; what cannot serve is kept with its reasons.
std::vector<Choice> resolve_strategies(std::string_view text, const Operator& op,
                                       const Machine& machine, RowCount rows = RowCount::fixed);

// The names and plans of a request, one after the other: a plan may be large, so only one lives at
// a time. `refused` choices are passed with an empty plan.
struct NamedPlan {
  std::string name;
  const Choice* choice = nullptr;  // null: the plan is from a file
  const Plan* plan = nullptr;      // null: the choice is refused
};
void for_each_plan(const Request& request, Progress& progress,
                   const std::function<void(const NamedPlan&)>& visit);

}  // namespace stretto::cli
