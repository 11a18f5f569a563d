// The `stretto` command: parses the line, runs one verb, maps errors to exit codes.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <new>
#include <span>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "cli/verb.h"
#include "core/file.h"
#include "core/text.h"
#include "stretto/error.h"
#include "stretto/simulate.h"
#include "stretto/tune.h"
#include "stretto/version.h"

namespace stretto::cli {
namespace {

constexpr const char* kAbout =
    "Stretto: distributed LLM operators with communication hidden behind computation.\n"
    "Operator + schedule + machine make a plan; each verb looks at it from one side.";
constexpr std::string_view kExample =
    "stretto run gemm-rs --m 2048 --n 1024 --k 4096 --ranks 8 --strategy all";

std::string footer(std::string_view example) {
  return fmt::format(
      "\nExit status: 0 good, 1 wrong result or diagnostics, 2 bad usage, 3 system fault.\n"
      "Example: {}",
      example);
}

void write_stdout(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw SystemError("cannot write to standard output");
  }
}

constexpr std::string_view kStdout = "-";  // as a path

// A result may have taken minutes: when its file cannot be written it goes to standard output.
void deliver(const Outcome& outcome, const std::string& path) {
  if (outcome.text.empty()) return;  // another process of the job speaks
  if (path.empty() || path == kStdout) return write_stdout(outcome.text);
  try {
    write_file(path, outcome.text);
  } catch (const SystemError& error) {
    write_stdout(outcome.text);
    throw SystemError(std::string(error.what()) + "; the result went to standard output");
  }
}

// Messages are one line each, whatever they quote.
int complain(const std::string& message, ExitCode code) {
  std::string line = message;
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  }
  // Not fmt::print, which throws when standard error is closed.
  std::fputs(fmt::format("stretto: {}\n", line).c_str(), stderr);
  return code;
}

// What the line has that the verb does not: a slip in an option's name, or words too many.
std::string unexpected(const CLI::App& verb) {
  const std::vector<std::string> words = verb.remaining();
  if (words.empty()) return "";
  const auto option = std::find_if(words.begin(), words.end(), [](const std::string& word) {
    return word.size() > 1 && word[0] == '-' && word != "--" && !int_from(word);
  });
  if (option == words.end()) return "not expected: " + join(words, " ");
  std::vector<std::string> names;
  for (const CLI::Option* known : verb.get_options()) {
    for (const std::string& name : known->get_lnames()) names.push_back("--" + name);
  }
  return unknown_word("option", option->substr(0, option->find('=')),
                      std::vector<std::string_view>(names.begin(), names.end()));
}

std::string usage_message(const CLI::App& app, const CLI::ParseError& error) {
  std::string verb;
  std::string what = error.what();
  for (const CLI::App* sub : app.get_subcommands()) {
    verb = sub->get_name() + " ";
    if (const std::string words = unexpected(*sub); !words.empty()) what = words;
    for (const CLI::Option* option : sub->get_options()) {
      const size_t given = option->results().size();
      if (given < 2 || option->get_items_expected_max() != 1) continue;
      what = fmt::format("{} is given {} times; give it once", option->get_name(), given);
    }
  }
  while (!what.empty() && (what.back() == '\n' || what.back() == '.')) what.pop_back();
  return fmt::format("{}; see: stretto {}--help", what, verb);
}

// Ahead of CLI11, which would only say that some subcommand is required.
void require_known_verb(std::span<const Verb> verbs, std::string_view word) {
  std::vector<std::string_view> names;
  for (const Verb& verb : verbs) names.push_back(verb.name);
  if (word.empty()) {
    throw UsageError(
        fmt::format("a verb is missing: {}; see: stretto --help", fmt::join(names, ", ")));
  }
  const bool is_option = word.front() == '-';
  constexpr std::string_view kAlone[] = {"-h", "--help", "--version"};
  if (is_option && std::find(std::begin(kAlone), std::end(kAlone), word) == std::end(kAlone)) {
    throw UsageError(
        fmt::format("{} stands before the verb; options come after it: {}; see: stretto --help",
                    quote(word), fmt::join(names, ", ")));
  }
  if (!is_option && std::find(names.begin(), names.end(), word) == names.end()) {
    throw UsageError(unknown_word("verb", word, names));
  }
}

// `-o "$UNSET"` must not pass for `-o` left out.
void require_values(const CLI::App& verb) {
  for (const CLI::Option* option : verb.get_options()) {
    for (const std::string& value : option->results()) {
      if (!value.empty()) continue;
      throw UsageError(
          fmt::format("{} is empty; give a value or leave it out", option->get_name()));
    }
  }
}

// Of two results in one file the first would be lost, and what has been measured for good.
void require_own_files(const Options& options) {
  if (options.perfetto == kStdout) {
    throw UsageError("--perfetto writes a file; '-' for standard output goes with -o");
  }
  const bool both = !options.output.empty() && !options.perfetto.empty();
  if (both && is_same_file(options.output, options.perfetto)) {
    throw UsageError("--output and --perfetto name one file; give each its own");
  }
  const std::string tuning =
      options.tuning_file.empty() ? default_tuning_file() : options.tuning_file;
  const std::pair<std::string_view, const std::string*> written[] = {
      {"--output", &options.output}, {"--perfetto", &options.perfetto}};
  for (const auto& [option, path] : written) {
    if (path->empty() || tuning.empty() || !is_same_file(*path, tuning)) continue;
    throw UsageError(fmt::format(
        "{} names the tuning file, which the result would replace; give it a file of its own",
        option));
  }
}

int execute(int argc, char** argv) {
  const Verb verbs[] = {run_verb(),        plan_verb(),     check_verb(),   simulate_verb(),
                        strategies_verb(), machines_verb(), explore_verb(), launch_verb(),
                        compile_verb(),    bench_verb(),    tune_verb(),    env_verb()};
  require_known_verb(verbs, argc > 1 ? argv[1] : "");
  CLI::App app(kAbout, "stretto");
  app.footer(footer(kExample));
  app.require_subcommand(1);
  app.set_version_flag("--version", "stretto " STRETTO_VERSION);
  Options options;
  const Verb* chosen = nullptr;
  for (const Verb& verb : verbs) {
    CLI::App* sub = app.add_subcommand(std::string(verb.name), std::string(verb.summary));
    verb.add_options(*sub, options);
    if (verb.writes_result) add_output(*sub, options);
    sub->footer(footer(verb.example.empty() ? kExample : verb.example));
    sub->callback([&chosen, &verb] { chosen = &verb; });
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& wants_text) {  // --help, --version
    std::ostringstream text;
    app.exit(wants_text, text, text);
    write_stdout(text.str());
    return kGood;
  } catch (const CLI::ParseError& error) {
    return complain(usage_message(app, error), kBadUsage);
  }
  require_values(*app.get_subcommands().front());
  require_own_files(options);
  // A file that grows beyond the user's limit is a write that fails, like one on a full disk. Not
  // for commands of `launch`, which would inherit this.
  if (chosen->writes_result) std::signal(SIGXFSZ, SIG_IGN);
  if (!options.output.empty() && options.output != kStdout) check_writable(options.output);
  if (!options.perfetto.empty()) check_writable(options.perfetto);
  const Outcome outcome = chosen->run(options);
  deliver(outcome, options.output);
  for (const std::string& complaint : outcome.complaints) complain(complaint, outcome.code);
  return outcome.code;
}

}  // namespace
}  // namespace stretto::cli

int main(int argc, char** argv) {
  using namespace stretto;
  using namespace stretto::cli;
  try {
    return execute(argc, argv);
  } catch (const EndlessPlan& error) {
    return complain(error.what(), kWrong);
  } catch (const UsageError& error) {
    return complain(error.what(), kBadUsage);
  } catch (const std::bad_alloc&) {
    return complain("out of memory; smaller sizes or fewer ranks need less", kSystemFault);
  } catch (const SystemError& error) {
    return complain(error.what(), kSystemFault);
  } catch (const std::system_error& error) {
    return complain(fmt::format("{}: the system gives no more threads or memory", error.what()),
                    kSystemFault);
  } catch (const std::exception& error) {
    return complain(fmt::format("{}; this is a bug of Stretto, please report it", error.what()),
                    kSystemFault);
  }
}
