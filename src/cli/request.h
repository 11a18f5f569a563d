// From typed options to what the stages take: an operator with schedules, or plans from files.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "cli/choices.h"
#include "cli/options.h"
#include "cli/plan_file.h"
#include "stretto/check.h"
#include "stretto/machine.h"
#include "stretto/operator.h"
#include "stretto/plan.h"

namespace stretto::cli {

class Progress;

struct Request {
  Operator op;       // what is computed
  Operator planned;  // what is planned for: with --rows it has as many rows or more
  Machine machine;
  std::vector<Choice> choices;  // of an operator
  std::vector<PlanFile> files;  // of that operator; then `choices` is empty
  bool need_all = true;         // or of the choices one

  size_t num_plans() const { return choices.size() + files.size(); }
};

// What is known of the GPUs that plans will run on.
struct OnGpus {
  int ranks_each = 1;
  int most_sms = std::numeric_limits<int>::max();
  std::string name = {};  // empty: not known
};

// A result in the place of what was read: a slip of the hand, and what was read is lost. Throws
// UsageError.
void refuse_overwriting(const Options& options, const std::string& read);

// Reads and checks everything; throws UsageError or SystemError. When schedules are named and all
// of them are refused the reasons are thrown; `--strategy all` keeps refused ones as choices.
Request resolve(const Options& options, const OnGpus& gpus = {});

// The operators that a benchmark is of: the one that is given, or those of --shapes. Throws
// UsageError, SystemError.
std::vector<Operator> resolve_operators(const Options& options);
// The ranks that all of them have. Throws UsageError.
int ranks_of_all(const std::vector<Operator>& operators);
// The machine that plans are made for: where ranks share a GPU, with a rank's SMs, and with no more
// than the GPUs have. Throws UsageError, SystemError.
Machine resolve_machine(const Options& options, int ranks, const OnGpus& gpus = {});
// The names and plans of a request, one after the other: a plan may be large, so of those that are
// made only as many live at a time as there are `threads`, which visit theirs side by side.
// `refused` choices are passed with an empty plan. Where not all are needed, so is one whose plan
// or visit turns out to be refused: what is known of the others is not lost.
struct NamedPlan {
  std::string name;
  const Choice* choice = nullptr;  // null: the plan is from a file
  const PlanFile* file = nullptr;  // null: it is not
  const Plan* plan = nullptr;      // null: the choice is refused
  const Plan* whole = nullptr;     // with --rows: the plan for all rows; null: `plan` is that
  size_t at = 0;                   // among those of the request

  std::string reason() const { return choice == nullptr ? "" : choice->reason; }
  CheckOptions check_options() const { return {.has_whole_plan = whole != nullptr}; }
  const PlanLines* lines() const { return file == nullptr ? nullptr : &file->lines; }
};
// The beginning of what is said of one.
struct PlanRow {
  std::string name, schedule, reason;  // the last: as of a Choice
  const PlanFile* file = nullptr;      // of the request, or null
  std::vector<std::string> refused;
  bool must_reproduce = false;

  void describe(const NamedPlan& named);
};
void for_each_plan(const Request& request, Progress& progress,
                   const std::function<void(const NamedPlan&)>& visit, size_t threads = 1);
// For those that only plan, prove and simulate: all that one of them holds may be a gigabyte.
inline constexpr size_t kMostPlansAtOnce = 8;

}  // namespace stretto::cli
