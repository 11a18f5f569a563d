// Executing one plan under several seeds, and what came of it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cli/options.h"
#include "cli/plan_file.h"
#include "stretto/emulate.h"
#include "stretto/plan.h"

namespace stretto::cli {

enum class Target : uint8_t { emu, cuda };

// What --routing says: a word, or a file of a line for each row. Throws UsageError, SystemError.
Routing routing_from(const std::string& text);
// Throws UsageError where nothing of the operator's is chosen by ids of the caller's, `takes_it`,
// or where a file has other rows.
void require_routing_of(const Routing& routing, const Operator& op, bool takes_it);

struct ExecutionOptions {
  Target target = Target::emu;
  EmulateOptions emulate;  // its seed is the first one
  int64_t num_seeds = 1;
  bool fill_given = false, runs_given = false;  // else each target takes its own
  bool routing_given = false;
  int replays = 20;       // cuda: of a captured graph
  bool timeline = false;  // cuda: of a run of each strategy
  std::string perfetto;   // cuda: a file for the timeline of one strategy
};
ExecutionOptions resolve_execution(const Options& options);  // throws UsageError
// As require_routing_of(), where a routing is given: of experts, or of look-ups.
void require_routing(const ExecutionOptions& options, const Operator& op);

struct Execution {
  std::vector<EmulateResult> by_seed;
  bool verified = true;      // every seed finished, without faults, with right results
  bool reproducible = true;  // every seed gave the same bits, and so did all ranks of a gemm-ar
  double seconds = 0;        // of one seed, on average

  bool good(bool must_reproduce) const { return verified && (reproducible || !must_reproduce); }
};
Execution execute(const Plan& plan, const ExecutionOptions& options,
                  const std::function<void(double)>& progress);

// What a run left out, since it names no expert or no row of a table: a labelled line; empty where
// nothing did.
std::string bad_ids_note(const Operator& op, uint64_t most_of_a_run, size_t label_width);

// What went wrong under the first seed that failed, a few lines; empty when all is well. `file`:
// the plan's, or null.
std::string explain(const Execution& execution, const PlanFile* file,
                    const ExecutionOptions& options, bool must_reproduce);

}  // namespace stretto::cli
