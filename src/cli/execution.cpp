#include "cli/execution.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>

#include "cli/built_kernels.h"
#include "cli/table.h"
#include "core/file.h"
#include "core/text.h"
#include "measure/expert_rows.h"
#include "op/routing_input.h"
#include "stretto/error.h"

namespace stretto::cli {
namespace {

constexpr int64_t kMaxSeed = std::numeric_limits<int64_t>::max() / 2;
constexpr int64_t kMaxSeeds = 1'000'000;
constexpr size_t kMaxExplained = 5;
constexpr std::string_view kTargets[] = {"emu", "cuda"};
constexpr int kMaxReplays = 1'000'000;

bool is_good(const EmulateResult& result) {
  return result.finished && result.faults.empty() && result.verified;
}

Fill fill_from(std::string_view text) {
  constexpr std::string_view known[] = {
#define STRETTO_NAME(name, word, meaning) word,
      STRETTO_FILLS(STRETTO_NAME)
#undef STRETTO_NAME
  };
#define STRETTO_MATCH(name, word, meaning) \
  if (text == word) return Fill::name;
  STRETTO_FILLS(STRETTO_MATCH)
#undef STRETTO_MATCH
  throw UsageError(unknown_word("fill", text, known));
}

}  // namespace

Routing routing_from(const std::string& text) {
  constexpr size_t kMostBytes = size_t{1} << 26;
  std::vector<std::string_view> known;
#define STRETTO_MATCH(name, word, meaning)          \
  if (text == word) return {RoutingKind::name, {}}; \
  known.push_back(word);
  STRETTO_ROUTINGS(STRETTO_MATCH)
#undef STRETTO_MATCH
  std::error_code ignored;
  if (!std::filesystem::exists(text, ignored)) {
    throw UsageError(unknown_word("routing", text, known) + " (nor is there a file of that name)");
  }
  return {RoutingKind::uniform, parse_routing(read_regular_file(text, kMostBytes), text)};
}

void require_routing_of(const Routing& routing, const Operator& op, bool takes_it) {
  if (!takes_it) {
    throw UsageError(
        fmt::format("--routing says which experts rows choose: of {} {}, so leave it out",
                    op.name(), runtime::chooses(op) ? "scores choose them" : "no row chooses any"));
  }
  if (!routing.table) return;
  const std::string why = why_not_routing_of(*routing.table, op);
  if (!why.empty()) throw UsageError("--routing: " + why);
}

ExecutionOptions resolve_execution(const Options& options) {
  ExecutionOptions out;
  if (options.target == kTargets[1]) {
    out.target = Target::cuda;
  } else if (!options.target.empty() && options.target != kTargets[0]) {
    throw UsageError(unknown_word("target", options.target, kTargets));
  }
  if (out.target != Target::cuda && !options.replays.empty()) {
    throw UsageError("--replays counts launches of a captured graph: it goes with --target cuda");
  }
  out.perfetto = options.perfetto;
  out.timeline = options.timeline || !options.perfetto.empty();
  if (out.target != Target::cuda && out.timeline) {
    throw UsageError(
        "--timeline and --perfetto of a run need --target cuda; `stretto simulate` draws what is "
        "predicted");
  }
  out.replays = static_cast<int>(whole_number("--replays", options.replays, 20, 0, kMaxReplays));
  out.fill_given = !options.fill.empty();
  out.runs_given = !options.runs.empty();
  out.routing_given = !options.routing.empty();
  EmulateOptions& emulate = out.emulate;
  emulate.seed = static_cast<uint64_t>(whole_number("--seed", options.seed, 1, 0, kMaxSeed));
  emulate.data_seed =
      static_cast<uint64_t>(whole_number("--data-seed", options.data_seed, 1, 0, kMaxSeed));
  emulate.runs = static_cast<int>(whole_number("--runs", options.runs, 2, 1, kMaxRuns));
  out.num_seeds = whole_number("--seeds", options.seeds, 1, 1, kMaxSeeds);
  if (!options.fill.empty()) emulate.fill = fill_from(options.fill);
  if (!options.routing.empty()) emulate.routing = routing_from(options.routing);
  emulate.reference = make_shared_reference();
  return out;
}

void require_routing(const ExecutionOptions& options, const Operator& op) {
  if (options.routing_given) require_routing_of(options.emulate.routing, op, takes_ids(op));
}

Execution execute(const Plan& plan, const ExecutionOptions& options,
                  const std::function<void(double)>& progress) {
  Execution execution;
  build_kernels(plan);
  for (int64_t i = 0; i < options.num_seeds; ++i) {
    EmulateOptions emulate_options = options.emulate;
    emulate_options.seed += static_cast<uint64_t>(i);
    emulate_options.progress = [&](double share) {
      progress((static_cast<double>(i) + share) / static_cast<double>(options.num_seeds));
    };
    EmulateResult result = emulate(plan, emulate_options);
    execution.verified &= is_good(result);
    execution.seconds += result.seconds / static_cast<double>(options.num_seeds);
    execution.by_seed.push_back(std::move(result));
    execution.reproducible &=
        execution.by_seed.back().ranks_agree &&
        execution.by_seed.back().output_hash == execution.by_seed.front().output_hash;
  }
  return execution;
}

std::string bad_ids_note(const Operator& op, uint64_t most_of_a_run, size_t label_width) {
  if (most_of_a_run == 0) return "";
  const bool looks_up = std::any_of(op.stages.begin(), op.stages.end(), [](const Stage& stage) {
    return stretto::looks_up(stage.kind);
  });
  return labelled(looks_up ? "indices" : "ids",
                  fmt::format("{} of a run are {}, and not -1 for none: nothing was {} there",
                              most_of_a_run, looks_up ? "no row of their table" : "no expert's",
                              looks_up ? "added" : "chosen"),
                  label_width);
}

std::string explain(const Execution& execution, const PlanFile* file,
                    const ExecutionOptions& options, bool must_reproduce) {
  const auto& results = execution.by_seed;
  const auto bad = std::find_if_not(results.begin(), results.end(), is_good);
  if (bad == results.end()) {
    if (execution.good(must_reproduce)) return "";
    const bool agree = std::all_of(results.begin(), results.end(),
                                   [](const EmulateResult& result) { return result.ranks_agree; });
    return fmt::format("  the {} different bits, though the schedule is deterministic\n",
                       agree ? "seeds gave" : "ranks have");
  }
  std::string out = fmt::format(
      "  under seed {}:\n", options.emulate.seed + static_cast<uint64_t>(bad - results.begin()));
  const auto add = [&](std::string_view line) {
    out += "    ";
    out += wrap(line, 4);
  };
  const auto add_some = [&](const auto& items, const auto& describe_item) {
    for (size_t i = 0; i < std::min(items.size(), kMaxExplained); ++i) add(describe_item(items[i]));
    if (items.size() > kMaxExplained) {
      add(fmt::format("... and {} more", items.size() - kMaxExplained));
    }
  };
  add_some(bad->stuck, [&](const StuckLane& lane) {
    return fmt::format("{}{} waits for {} >= {}, which stands at {}", place(file, lane.where),
                       lane.lane, lane.signal, lane.expected, lane.seen);
  });
  add_some(bad->faults,
           [&](const EmulateFault& fault) { return place(file, fault.where) + fault.text; });
  if (bad->wrong_elements > 0) {
    add(fmt::format("{} wrong elements; the first: {}", bad->wrong_elements, bad->first_wrong));
  }
  if (!bad->is_judged) add(bad->first_wrong);
  return out;
}

}  // namespace stretto::cli
