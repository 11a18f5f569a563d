#include "cli/completed_words.h"

#include <CLI/CLI.hpp>
#include <span>

#include "cli/command_line.h"
#include "cli/completions.h"
#include "machine/find_machine.h"
#include "model/model.h"
#include "op/names.h"
#include "schedule/systems.h"
#include "stretto/dtype.h"
#include "stretto/operator.h"
#include "stretto/schedule.h"

namespace stretto::cli {
namespace {

std::vector<std::string> strategies() {
  std::vector<std::string> words;
  for (const Preset& preset : presets()) words.emplace_back(preset.name);
  for (const System& system : systems()) words.emplace_back(system.name);
  for (const char* word : {"auto", "all", "sweep"}) words.emplace_back(word);
  return words;
}

std::vector<std::string> layers() {
  std::vector<std::string> words;
  for (const Model& model : published_models()) {
    for (const Linear& linear : linears_of(model)) words.push_back(model.name + ":" + linear.name);
  }
  return words;
}

std::vector<std::string> operators() {
  std::vector<std::string> words;
  for (const auto& graph : known_graphs()) words.push_back(name_of(*graph));
  return words;
}

std::vector<std::string> models() {
  std::vector<std::string> words;
  for (const Model& model : published_models()) words.push_back(model.name);
  return words;
}

// By an option's long name.
Values values_of(std::string_view option) {
  if (option == "strategy") return {.words = strategies(), .is_list = true};
  if (option == "schedule" || option == "against") return {.words = strategies()};
  if (option == "machine") return {.words = machine_names(), .is_file = true};
  if (option == "layer") return {.words = layers()};
  if (option == "dtype") return {.words = {std::begin(kDTypeNames), std::end(kDTypeNames)}};
  if (option == "target") return {.words = {"emu", "cuda"}};
  if (option == "color") return {.words = {"auto", "always", "never"}};
  if (option == "arch") return {.words = {"sm_90a", "sm_89", "sm_80"}};
  if (option == "routing") {
    return {.words = {"uniform", "zipf", "one-hot", "adversarial"}, .is_file = true};
  }
  if (option == "fill") return {.words = {"random", "integers", "specials", "subnormals"}};
  return {};
}

// By the type that --help shows for the first word.
Values words_of(std::string_view type) {
  if (type == "OP" || type == "OP|FILE") return {.words = operators(), .is_file = true};
  if (type == "NAME|FILE") return {.words = models(), .is_file = true};
  if (type == "MACHINE") return {.words = machine_names(), .is_file = true};
  if (type == "SHELL") return {.words = {known_shells().begin(), known_shells().end()}};
  if (type != "VERB") return {};
  Values verbs;
  for (const Verb& verb : all_verbs()) verbs.words.emplace_back(verb.name);
  return verbs;
}

CompletedVerb completed(const CLI::App& verb) {
  CompletedVerb found;
  found.name = verb.get_name();
  found.meaning = verb.get_description();
  for (const CLI::Option* option : verb.get_options()) {
    if (option->get_positional()) {
      if (found.words.words.empty()) found.words = words_of(option->get_type_name());
      continue;
    }
    CompletedOption one;
    for (const std::string& name : option->get_snames()) one.names.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) {
      one.names.push_back("--" + name);
      one.values = values_of(name);
    }
    one.meaning = option->get_description();
    one.has_value = option->get_items_expected_max() > 0;
    if (option->get_type_name() == "FILE") one.values.is_file = true;
    found.options.push_back(std::move(one));
  }
  return found;
}

}  // namespace

std::vector<CompletedVerb> completed_verbs() {
  CLI::App app;
  Options unused;
  add_verbs(app, unused);
  std::vector<CompletedVerb> verbs;
  for (const Verb& verb : all_verbs()) {
    verbs.push_back(completed(*app.get_subcommand(std::string(verb.name))));
  }
  return verbs;
}

}  // namespace stretto::cli
