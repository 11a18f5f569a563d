// stretto completions SHELL: a script with which the shell completes verbs, options and values.
#include "cli/completions.h"
#include "cli/verb.h"
#include "stretto/error.h"

namespace stretto::cli {
namespace {

void add_options(CLI::App& app, Options& options) {
  add_option(app, "shell", options.subject, "bash, zsh or fish", "SHELL");
}

Outcome run(const Options& options) {
  if (options.subject.empty()) {
    throw UsageError(
        "completions needs a shell: eval \"$(stretto completions bash)\", or zsh, "
        "fish");
  }
  return {completions_for(options.subject)};
}

}  // namespace

Verb completions_verb() {
  return {"completions",
          "Print a script that completes lines in bash, zsh or fish",
          add_options,
          run,
          "eval \"$(stretto completions bash)\"",
          false};
}

}  // namespace stretto::cli
