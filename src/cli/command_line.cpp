#include "cli/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

#include "cli/help.h"
#include "cli/nearest.h"
#include "core/text.h"
#include "stretto/error.h"
#include "stretto/version.h"

namespace stretto::cli {
namespace {

constexpr std::string_view kExample = "stretto run gemm-rs 2Kx1Kx4K --ranks 8 --strategy all";

std::vector<Verb> in_group(std::string_view group, std::vector<Verb> verbs) {
  for (Verb& verb : verbs) verb.group = group;
  return verbs;
}

std::string footer(std::string_view example) {
  return fmt::format(
      "Exit status: 0 good, 1 wrong or refuted, 2 bad usage, 3 system fault.\n"
      "Example: {}",
      example.empty() ? kExample : example);
}

std::vector<std::string> names_of_options(const CLI::App& verb) {
  std::vector<std::string> names;
  for (const CLI::Option* known : verb.get_options()) {
    for (const std::string& name : known->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// What the line has that the verb does not: a slip in an option's name, or words too many.
std::string unexpected(const CLI::App& verb) {
  const std::vector<std::string> words = verb.remaining();
  if (words.empty()) return "";
  const auto option = std::find_if(words.begin(), words.end(), [](const std::string& word) {
    return word.size() > 1 && word[0] == '-' && word != "--" && !int_from(word);
  });
  if (option == words.end()) return "not expected: " + join(words, " ");
  return unknown_of_many("option", option->substr(0, option->find('=')), names_of_options(verb));
}

}  // namespace

std::span<const Verb> all_verbs() {
  static const std::vector<Verb> verbs = [] {
    std::vector<Verb> all;
    for (const auto& [group, some] : {
             std::pair<std::string_view, std::vector<Verb>>{
                 "Look",
                 {plan_verb(), simulate_verb(), report_verb(), model_verb(), strategies_verb(),
                  machines_verb()}},
             {"Prove", {run_verb(), check_verb(), explore_verb()}},
             {"Measure", {bench_verb(), tune_verb()}},
             {"Tools",
              {doctor_verb(), compile_verb(), launch_verb(), env_verb(), completions_verb(),
               help_verb()}},
         }) {
      const std::vector<Verb> grouped = in_group(group, some);
      all.insert(all.end(), grouped.begin(), grouped.end());
    }
    return all;
  }();
  return verbs;
}

const Verb* find_verb(std::string_view name) {
  for (const Verb& verb : all_verbs()) {
    if (verb.name == name) return &verb;
  }
  return nullptr;
}

void add_verbs(CLI::App& app, Options& options) {
  constexpr const char* kVersion = "stretto " STRETTO_VERSION;
  app.require_subcommand(1);
  app.set_version_flag("--version", kVersion);
  app.footer(footer(kExample));
  const auto help = [](const CLI::App* of, const std::string&, CLI::AppFormatMode) {
    return help_text(*of);
  };
  app.formatter_fn(help);
  for (const Verb& verb : all_verbs()) {
    CLI::App* sub = app.add_subcommand(std::string(verb.name), std::string(verb.summary));
    sub->group(std::string(verb.group));
    sub->set_version_flag("--version", kVersion);
    verb.add_options(*sub, options);
    if (verb.writes_result) add_output(*sub, options);
    add_common(*sub, options);
    sub->footer(footer(verb.example));
    sub->formatter_fn(help);
  }
}

std::vector<std::string> with_present_names(std::vector<std::string> words) {
  constexpr std::string_view kFormer = "--strategies", kNow = "--strategy";
  for (std::string& word : words) {
    if (word == "--") break;
    if (word.substr(0, word.find('=')) == kFormer) word.replace(0, kFormer.size(), kNow);
  }
  return words;
}

void require_known_verb(std::string_view word) {
  std::vector<std::string> names, groups;
  std::string_view group;
  for (const Verb& verb : all_verbs()) {
    names.emplace_back(verb.name);
    if (verb.group == group) {
      groups.back() += fmt::format(", {}", verb.name);
    } else {
      groups.push_back(fmt::format("{}: {}", group = verb.group, verb.name));
    }
  }
  if (word.empty()) {
    throw UsageError(
        fmt::format("a verb is missing. {}; see: stretto help", fmt::join(groups, "; ")));
  }
  const bool is_option = word.front() == '-';
  constexpr std::string_view kAlone[] = {"-h", "--help", "--version"};
  if (is_option && std::find(std::begin(kAlone), std::end(kAlone), word) == std::end(kAlone)) {
    throw UsageError(
        fmt::format("{} stands before the verb; options come after it, as in: stretto "
                    "run {}; see: stretto help",
                    quote(word), quote(word)));
  }
  if (!is_option && find_verb(word) == nullptr) {
    throw UsageError(unknown_of_many("verb", word, names) + "; see: stretto help");
  }
}

std::string usage_message(const CLI::App& app, std::string what) {
  std::string verb;
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

}  // namespace stretto::cli
