// Which schedules a line asks for: by name, by text, or left to `auto`.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/options.h"
#include "stretto/machine.h"
#include "stretto/operator.h"
#include "stretto/schedule.h"
#include "tune/proposed_algorithms.h"

namespace stretto::cli {

// One schedule to look at, under the name that tables show.
struct Choice {
  std::string name;
  OperatorSchedule schedule;
  std::vector<std::string> refused = {};  // why it cannot serve; empty when it can
  std::string reason = {};                // why `auto` took it, or what a name stands for
  bool is_by_auto = false;

  IfNotProposed if_not_proposed() const {
    return is_by_auto ? IfNotProposed::take_first : IfNotProposed::refuse;
  }
};

// The schedules of a list: "tiles,tile=64x128,decomposed" are two. A comma ends one where no change
// of a coordinate follows, and `;` always does.
std::vector<std::string> schedules_in(std::string_view list);

// "all", "sweep" (what `tune` measures, of fixed rows only), or a list of "auto", presets and
// schedules. Throws UsageError for words that mean nothing, which lists the presets and, of a word
// alone, what the option takes besides; what cannot serve is kept with its reasons.
inline constexpr std::string_view kStrategyWords[] = {"auto", "all", "sweep"};
inline constexpr std::string_view kServedWords[] = {"auto", "all"};
std::vector<Choice> resolve_strategies(std::string_view text, const Operator& op,
                                       const Machine& machine, RowCount rows = RowCount::fixed,
                                       std::span<const std::string_view> words = kStrategyWords);
// What --strategy or --schedule say. Throws UsageError; also where what is named cannot serve, or
// of `all` nothing.
std::vector<Choice> resolve_choices(const Options& options, const Operator& op,
                                    const Machine& machine);

// Adds the reasons for which no GPU runs a choice's plan of `op`, whose runs have so many rows.
// What is refused already stays so.
void refuse_what_no_gpu_runs(std::vector<Choice>& choices, const Operator& op, int64_t rows,
                             const Machine& machine);
// Throws UsageError with all reasons where every choice is refused, or, when all are needed, one.
void require_served(const std::vector<Choice>& choices, bool need_all);

// Whether what a line names must all serve; of `all` and `sweep`, one must.
bool needs_all(const Options& options);

// On standard error, for verbs whose result does not say it.
void say_why(const std::vector<Choice>& choices, const Operator& op, const Machine& machine);

}  // namespace stretto::cli
