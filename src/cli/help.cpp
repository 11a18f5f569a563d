#include "cli/help.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/table.h"
#include "cli/terminal.h"

namespace stretto::cli {
namespace {

constexpr size_t kVerbWidth = 15, kOptionWidth = 24;

bool is_shown(const CLI::Option& option) { return !option.get_group().empty(); }

// "-o, --output FILE"; positionals by their type.
std::string label_of(const CLI::Option& option) {
  if (option.get_positional()) return option.get_type_name();
  std::string label;
  for (const std::string& name : option.get_snames()) label += "-" + name + ", ";
  for (const std::string& name : option.get_lnames()) label += "--" + name + ", ";
  label.resize(label.size() - 2);
  const bool has_value = option.get_items_expected_max() > 0 && option.get_type_size_max() > 0;
  return has_value ? label + " " + option.get_type_name() : label;
}

std::string heading(const std::string& text) { return "\n" + paint(Style::heading, text) + "\n"; }

std::string line_of(const std::string& label, const std::string& meaning, size_t width) {
  return labelled("  " + label, meaning, width);
}

template <class Chosen>
std::string options_of(const CLI::App& app, Chosen is_chosen) {
  std::string text;
  for (const CLI::Option* option : app.get_options()) {
    if (!is_shown(*option) || !is_chosen(*option)) continue;
    text += line_of(label_of(*option), option->get_description(), kOptionWidth);
  }
  return text;
}

// In the order in which they are met first.
template <class Items, class GroupOf>
std::vector<std::string> groups_of(const Items& items, GroupOf group_of) {
  std::vector<std::string> groups;
  for (const auto* item : items) {
    const std::string& group = group_of(*item);
    if (!group.empty() && std::find(groups.begin(), groups.end(), group) == groups.end()) {
      groups.push_back(group);
    }
  }
  return groups;
}

std::string verbs_of(const CLI::App& app) {
  std::string text;
  const auto verbs = app.get_subcommands([](const CLI::App*) { return true; });
  const auto group_of = [](const CLI::App& verb) -> const std::string& { return verb.get_group(); };
  for (const std::string& group : groups_of(verbs, group_of)) {
    text += heading(group);
    for (const CLI::App* verb : verbs) {
      if (verb->get_group() != group) continue;
      text += line_of(verb->get_name(), verb->get_description(), kVerbWidth);
    }
  }
  return text;
}

std::string option_groups_of(const CLI::App& app) {
  std::string text;
  const auto group_of = [](const CLI::Option& one) -> const std::string& {
    return one.get_group();
  };
  for (const std::string& group : groups_of(app.get_options(), group_of)) {
    const std::string lines = options_of(app, [&](const CLI::Option& option) {
      return !option.get_positional() && option.get_group() == group;
    });
    if (!lines.empty()) text += heading(group) + lines;
  }
  return text;
}

std::string usage_of(const CLI::App& app) {
  if (app.get_parent() == nullptr) return "stretto VERB [OPTIONS]";
  std::string usage = "stretto " + app.get_name();
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional()) usage += " [" + option->get_type_name() + "]";
  }
  return usage + " [OPTIONS]";
}

}  // namespace

std::string help_text(const CLI::App& app) {
  std::string text;
  for (const std::string& line : CLI::detail::split(app.get_description(), '\n')) {
    text += wrap(line, 0);
  }
  text += "\n" + paint(Style::heading, "Usage:") + " " + wrap(usage_of(app), 6);
  const std::string words =
      options_of(app, [](const CLI::Option& option) { return option.get_positional(); });
  if (!words.empty()) text += "\n" + words;
  text += verbs_of(app) + option_groups_of(app) + "\n";
  for (const std::string& line : CLI::detail::split(app.get_footer(), '\n')) {
    text += wrap(line, 2);
  }
  return text;
}

}  // namespace stretto::cli
