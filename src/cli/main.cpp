// The `stretto` command: parses the line, runs one verb, maps errors to exit codes.
#include <fmt/format.h>
#include <malloc.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <new>
#include <span>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "cli/command_line.h"
#include "cli/json_error.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "core/file.h"
#include "stretto/error.h"
#include "stretto/simulate.h"
#include "stretto/tune.h"

namespace stretto::cli {
namespace {

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
  const std::string_view name = "stretto:";
  const std::string said = code == kGood ? std::string(name) : paint_error(Style::bad, name);
  std::fputs(fmt::format("{} {}\n", said, line).c_str(), stderr);
  return code;
}

// Nothing else was printed, or it would be no error.
int fail(std::span<char* const> words, const std::string& message, ExitCode code) {
  if (ask_for_json(words)) {
    const std::string_view verb = words.empty() || find_verb(words[0]) == nullptr ? "" : words[0];
    std::fputs(json_error(verb, message, code).c_str(), stdout);
    std::fflush(stdout);
  }
  return complain(message, code);
}

// `-o "$UNSET"` must not pass for `-o` left out.
void require_values(const CLI::App& verb) {
  for (const CLI::Option* option : verb.get_options()) {
    for (const std::string& value : option->results()) {
      if (!value.empty()) continue;
      const bool is_word = option->get_lnames().empty() && option->get_snames().empty();
      throw UsageError(fmt::format(
          "{} is empty; give a value or leave it out",
          is_word ? "a word in place of " + option->get_type_name() : option->get_name()));
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

// Plans take tens of megabytes, one after the other. Memory that went back to the system between
// them would be cleared again, page by page.
void keep_memory() {
#ifdef __GLIBC__
  constexpr int kMost = 1 << 30, kLargest = 32 << 20, kAtOnce = 64 << 20;
  mallopt(M_TRIM_THRESHOLD, kMost);
  mallopt(M_MMAP_THRESHOLD, kLargest);
  mallopt(M_TOP_PAD, kAtOnce);
#endif
}

int execute(int argc, char** argv) {
  const std::vector<std::string> words = with_present_names({argv + 1, argv + argc});
  require_known_verb(words.empty() ? "" : words.front());
  CLI::App app(std::string(kAbout), "stretto");
  Options options;
  add_verbs(app, options);
  set_colour(Colour::automatic, false);
  try {
    app.parse(
        std::vector<std::string>(words.rbegin(), words.rend()));  // CLI11 takes the last first
  } catch (const CLI::Success& wants_text) {                      // --help, --version
    std::ostringstream text;
    app.exit(wants_text, text, text);
    write_stdout(text.str());
    return kGood;
  } catch (const CLI::ParseError& error) {
    throw UsageError(usage_message(app, error.what()));
  }
  const Verb* chosen = find_verb(app.get_subcommands().front()->get_name());
  set_colour(colour_from(options.color), !options.output.empty() && options.output != kStdout);
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
  const std::span<char* const> words(argv + (argc > 0), static_cast<size_t>(argc - (argc > 0)));
  keep_memory();
  try {
    return execute(argc, argv);
  } catch (const EndlessPlan& error) {
    return fail(words, error.what(), kWrong);
  } catch (const UsageError& error) {
    return fail(words, error.what(), kBadUsage);
  } catch (const std::bad_alloc&) {
    return fail(words, "out of memory; smaller sizes or fewer ranks need less", kSystemFault);
  } catch (const SystemError& error) {
    return fail(words, error.what(), kSystemFault);
  } catch (const std::system_error& error) {
    return fail(words, fmt::format("{}: the system gives no more threads or memory", error.what()),
                kSystemFault);
  } catch (const std::exception& error) {
    return fail(words, fmt::format("{}; this is a bug of Stretto, please report it", error.what()),
                kSystemFault);
  }
}
