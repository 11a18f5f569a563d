#include "cli/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "core/text.h"
#include "stretto/error.h"
#include "stretto/operator.h"

namespace stretto::cli {
namespace {

std::string all_operators() {
  std::string words;
  for (const auto& graph : known_graphs()) {
    words += words.empty() ? "" : ", ";
    words += name_of(*graph);
  }
  return words;
}

constexpr const char* kSizesMeaning =
    "Sizes of the operator: m=4K n=8192 k=28672, or 4Kx8192x28672, or 4Kx8192x28672@8 with ranks";

void add_sizes(CLI::App& app, Options& options) {
  const char* sizes = "Operator (sizes are global; 4K is 4096)";
  app.add_option("--m", options.m, "Rows of A and of the result")->type_name("M")->group(sizes);
  app.add_option("--n", options.n, "Columns of the result")->type_name("N")->group(sizes);
  app.add_option("--k", options.k, "Length of the sums")->type_name("K")->group(sizes);
  app.add_option("--ranks", options.ranks, "Number of GPUs [8]")->type_name("R")->group(sizes);
  app.add_option("--dtype", options.dtype, "bf16, fp16 or fp32 [bf16]")
      ->type_name("TYPE")
      ->group(sizes);
  app.add_option("--layer", options.layer,
                 "N and K of a model's linear, as in llama-3-70b:down; see: stretto model")
      ->type_name("MODEL:LINEAR")
      ->group(sizes);
}

void add_machine(CLI::App& app, Options& options, const char* group) {
  app.add_option("--machine", options.machine,
                 "Name or file [h200x8; beyond 8 ranks h200x16, with the nodes they need]")
      ->type_name("NAME")
      ->group(group);
}

}  // namespace

void add_kernels(CLI::App& app, Options& options, const char* group) {
  app.add_option("--kernels", options.kernels,
                 "Folder of the headers that the graph's kernels are in, which are compiled, and "
                 "executed by what runs plans [the graph file's; none of a plan file]")
      ->type_name("FOLDER")
      ->group(group);
}

void add_option(CLI::App& app, const std::string& names, std::string& value,
                const std::string& meaning, const std::string& type, const std::string& group) {
  app.add_option(names, value, meaning)->type_name(type)->group(group);
}

void add_flag(CLI::App& app, const std::string& name, bool& value, const std::string& meaning,
              const std::string& group) {
  app.add_flag(name, value, meaning)->group(group);
}

void add_rest(CLI::App& app, const std::string& name, std::vector<std::string>& values,
              const std::string& meaning) {
  app.add_option(name, values, meaning);
}

void add_subject(CLI::App& app, Options& options) {
  app.add_option("subject", options.subject,
                 "Operator (" + all_operators() + "), a graph file or a plan file")
      ->type_name("OP|FILE");
  app.add_option("sizes", options.sizes,
                 std::string(kSizesMeaning) + "; or more plan files, beside the first")
      ->type_name("SIZES");
  add_sizes(app, options);
  app.add_option("--rows", options.rows,
                 "Rows of the run, of a plan made for M [M]; tiles are cut at owners")
      ->type_name("ROWS")
      ->group("Operator (sizes are global; 4K is 4096)");
  const char* schedule = "Schedule";
  app.add_option("--strategy", options.strategy,
                 "Presets and schedules (tiles,decomposed), auto, all, or sweep for what tune "
                 "measures [tiles]; see: stretto strategies")
      ->type_name("LIST")
      ->group(schedule);
  app.add_option("--schedule", options.schedule,
                 "One schedule: a preset and changes (tiles,tile=64x128,comm-sms=4) or auto")
      ->type_name("TEXT")
      ->group(schedule);
  add_machine(app, options, schedule);
}

void add_shapes(CLI::App& app, Options& options) {
  app.add_option("subject", options.subject, "Operator (" + all_operators() + ") or a graph file")
      ->type_name("OP");
  app.add_option("sizes", options.sizes, kSizesMeaning)->type_name("SIZES");
  add_sizes(app, options);
  const char* group = "Operator (sizes are global; 4K is 4096)";
  app.add_option("--shapes", options.shapes,
                 "Operators and sizes, one a line as in bench/shapes; those of OP when it is given")
      ->type_name("FILE")
      ->group(group);
  add_machine(app, options, group);
}

void add_timing(CLI::App& app, Options& options) {
  const char* group = "Measurement";
  app.add_option("--rounds", options.rounds, "Times that all contestants take turns [11]")
      ->type_name("COUNT")
      ->group(group);
  app.add_option("--turn", options.turn,
                 "Shortest turn, in ms, its second half timed: 100 where the power limit sets the "
                 "clock [two graphs of 10 runs]")
      ->type_name("MS")
      ->group(group);
  app.add_flag("--no-cold", options.no_cold, "Leave out single runs from a cold L2 cache")
      ->group(group);
  app.add_option("--commit", options.commit, "Recorded with the results")
      ->type_name("TEXT")
      ->group(group);
}

void add_execution(CLI::App& app, Options& options) {
  const char* group = "Execution";
  app.add_option("--target", options.target, "What executes the plan: emu or cuda [emu]")
      ->type_name("TARGET")
      ->group(group);
  app.add_option("--seed", options.seed, "First seed of the interleavings [1]")
      ->type_name("S")
      ->group(group);
  app.add_option("--seeds", options.seeds, "Number of seeds, each an execution [1]")
      ->type_name("COUNT")
      ->group(group);
  app.add_option("--data-seed", options.data_seed, "Seed of the input values [1]")
      ->type_name("S")
      ->group(group);
  app.add_option("--fill", options.fill,
                 "Input values: random, integers, specials or subnormals [random]")
      ->type_name("FILL")
      ->group(group);
  app.add_option("--routing", options.routing,
                 "Experts that rows choose: uniform, zipf, one-hot, adversarial, or a file with a "
                 "line of them for each row [uniform]")
      ->type_name("ROUTING")
      ->group(group);
  add_kernels(app, options, group);
  app.add_option("--runs", options.runs, "Consecutive runs of the plan in an execution [2]")
      ->type_name("COUNT")
      ->group(group);
  app.add_option("--replays", options.replays, "cuda: launches of a captured graph [20]")
      ->type_name("COUNT")
      ->group(group);
  app.add_flag("--timeline", options.timeline, "cuda: draw when kernels of a run did what")
      ->group(group);
  app.add_option("--perfetto", options.perfetto, "cuda: write that for ui.perfetto.dev")
      ->type_name("FILE")
      ->group(group);
}

void add_timeline(CLI::App& app, Options& options) {
  const char* group = "Timeline";
  app.add_option("--width", options.width, "Columns of the chart [as the terminal]")
      ->type_name("COLUMNS")
      ->group(group);
  app.add_flag("--chart", options.chart,
               "Draw several strategies too, under each other on one time axis")
      ->group(group);
  app.add_option("--show-ranks", options.show_ranks,
                 "Ranks that the chart shows [2; of several strategies 1]")
      ->type_name("COUNT")
      ->group(group);
  app.add_flag("--critical-path", options.critical_path, "List the critical path")->group(group);
  app.add_flag("--no-legend", options.no_legend, "Leave out what the columns mean")->group(group);
  app.add_option("--perfetto", options.perfetto, "Write the timeline for ui.perfetto.dev")
      ->type_name("FILE")
      ->group(group);
}

void add_output(CLI::App& app, Options& options) {
  app.add_flag("--json", options.json, "One JSON object, documented in docs/cli.md")
      ->group("Output");
  app.add_option("-o,--output", options.output, "Write the output to FILE")
      ->type_name("FILE")
      ->group("Output");
}

void add_common(CLI::App& app, Options& options) {
  app.add_option("--color", options.color, "auto, always or never [auto]; NO_COLOR is never")
      ->type_name("WHEN")
      ->group("Output");
}

int64_t whole_number(std::string_view option, std::string_view text, int64_t absent, int64_t least,
                     int64_t most) {
  if (text.empty()) return absent;
  const auto value = int_from(text);
  if (!value || *value < least || *value > most) {
    throw UsageError(
        fmt::format("{} {} is not a whole number from {} to {}", option, quote(text), least, most));
  }
  return *value;
}

}  // namespace stretto::cli
