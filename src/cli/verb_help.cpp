// stretto help [VERB]: what --help says.
#include <CLI/CLI.hpp>

#include "cli/command_line.h"
#include "cli/help.h"

namespace stretto::cli {
namespace {

void add_options(CLI::App& app, Options& options) {
  add_option(app, "verb", options.subject, "A verb; none: all of them", "VERB");
}

Outcome run(const Options& options) {
  if (!options.subject.empty()) require_known_verb(options.subject);
  CLI::App app(std::string(kAbout), "stretto");
  Options unused;
  add_verbs(app, unused);
  return {help_text(options.subject.empty() ? app : *app.get_subcommand(options.subject))};
}

}  // namespace

Verb help_verb() {
  return {"help", "Show the verbs, or the options of one", add_options, run, "stretto help run",
          false};
}

}  // namespace stretto::cli
