// A verb of the command: a lens on one stage. Each lives in a file of its own, verb_NAME.cpp.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/options.h"

namespace stretto::cli {

enum ExitCode : int { kGood = 0, kWrong = 1, kBadUsage = 2, kSystemFault = 3 };

// What a verb has to say. It is written in one piece when the verb is done.
struct Outcome {
  std::string text;
  ExitCode code = kGood;
  std::vector<std::string> complaints = {};  // behind the text, a line each on standard error
};

struct Verb {
  std::string_view name;
  std::string_view summary;
  void (*add_options)(CLI::App& app, Options& options);
  Outcome (*run)(const Options& options);
  std::string_view example = {};  // a command line, for --help; empty: the one of `run`
  bool writes_result = true;      // takes --json and -o
  std::string_view group = {};    // under which --help has it
};

Verb run_verb();
Verb plan_verb();
Verb check_verb();
Verb simulate_verb();
Verb report_verb();
Verb strategies_verb();
Verb machines_verb();
Verb explore_verb();
Verb launch_verb();
Verb env_verb();
Verb compile_verb();
Verb bench_verb();
Verb tune_verb();
Verb model_verb();
Verb doctor_verb();
Verb completions_verb();
Verb help_verb();

}  // namespace stretto::cli
