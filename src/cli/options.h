// What the user typed, as text; request.h turns it into operators, schedules and numbers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace stretto::cli {

struct Options {
  std::string subject;             // OP or FILE
  std::vector<std::string> sizes;  // name=value
  std::string m, n, k, ranks, dtype, rows, layer;
  std::string strategy, schedule, machine;
  std::string target, fill, routing, seed, seeds, data_seed, runs, replays;
  std::string arch;
  bool serve = false, workspace = false;
  std::string shapes, against, rounds, turn, commit, tuning_file, more;
  bool no_cold = false;
  bool program = false, derive = false;
  std::string dump_after, perfetto, width, show_ranks;
  bool chart = false, critical_path = false, no_legend = false, timeline = false;
  std::string kernels;
  std::string blocks, threads;
  bool no_shrink = false;
  std::string measured;
  bool svg = false;
  std::string processes;
  std::vector<std::string> command;
  std::string tp;
  bool all_reduce = false, deal_experts = false, html = false;
  std::string output, color;
  bool json = false;
};

// One option, for verbs that have their own. `type` stands for the value in --help. Only
// options.cpp and main.cpp read CLI11, whose header takes long to compile.
void add_option(CLI::App& app, const std::string& names, std::string& value,
                const std::string& meaning, const std::string& type,
                const std::string& group = "Options");
void add_flag(CLI::App& app, const std::string& name, bool& value, const std::string& meaning,
              const std::string& group = "Options");
// Where the headers of the graph's kernels are: of verbs that compile or execute plans.
void add_kernels(CLI::App& app, Options& options, const char* group);
// All arguments that are left, in order.
void add_rest(CLI::App& app, const std::string& name, std::vector<std::string>& values,
              const std::string& meaning);

// Groups of options; each verb takes those that mean something to it.
void add_subject(CLI::App& app, Options& options);    // OP|FILE, sizes, strategy, machine
void add_execution(CLI::App& app, Options& options);  // target, seeds, fill, runs
void add_shapes(CLI::App& app, Options& options);     // OP, sizes or --shapes, machine
void add_timing(CLI::App& app, Options& options);     // rounds, cold runs, commit
void add_timeline(CLI::App& app, Options& options);   // width, ranks shown, legend, Perfetto
void add_output(CLI::App& app, Options& options);     // --json, -o
void add_common(CLI::App& app, Options& options);     // of every verb: --color

// The text as a whole number within bounds, `absent` when empty. Throws UsageError naming the
// option, what was given and what would be right.
int64_t whole_number(std::string_view option, std::string_view text, int64_t absent, int64_t least,
                     int64_t most);

}  // namespace stretto::cli
