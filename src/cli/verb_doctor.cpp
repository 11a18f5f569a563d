// stretto doctor: what works on this machine, what does not, and what to do about it.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/doctor_findings.h"
#include "cli/json.h"
#include "cli/known_variables.h"
#include "cli/table.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "core/text.h"
#include "stretto/version.h"

namespace stretto::cli {
namespace {

constexpr size_t kStateWidth = 7, kNameWidth = 21;

Style style_of(State state) {
  switch (state) {
    case State::good:
      return Style::good;
    case State::absent:
      return Style::remark;
    case State::wrong:
      return Style::bad;
  }
  return Style::good;
}

std::string print(const Health& health, const std::vector<KnownVariable>& variables) {
  std::string out = "stretto " STRETTO_VERSION "\n\n";
  for (const Finding& finding : health.findings) {
    const std::string state = paint(style_of(finding.state), to_string(finding.state));
    const size_t had = display_width(to_string(finding.state));
    out += labelled(fmt::format("{}{}{}", state, std::string(kStateWidth - had, ' '), finding.name),
                    finding.found, kNameWidth);
    if (finding.to_do.empty()) continue;
    out += std::string(kNameWidth, ' ') + wrap("-> " + finding.to_do, kNameWidth);
  }
  out += "\n" + paint(Style::heading, "What works here") + "\n";
  for (const Ability& ability : health.abilities) {
    const std::string word = ability.works ? paint(Style::good, "yes") : paint(Style::remark, "no");
    out += labelled(
        word,
        ability.works ? ability.what : fmt::format("{}: it lacks {}", ability.what, ability.lacks),
        kStateWidth);
  }
  out += "\n" + paint(Style::heading, "Variables that are set") + " (all: stretto env)\n";
  for (const KnownVariable& variable : variables) {
    out += fmt::format("{}={}\n", variable.name, quote(variable.value, 1000));
  }
  if (variables.empty()) out += "none\n";
  return out;
}

Outcome run(const Options& options) {
  const Health health = look_around();
  const std::vector<KnownVariable> variables = set_variables();
  if (!options.json) return {print(health, variables)};
  Json json = json_header("doctor");
  json["findings"] = Json::array();
  for (const Finding& finding : health.findings) {
    json["findings"].push_back({{"name", finding.name},
                                {"state", to_string(finding.state)},
                                {"found", finding.found},
                                {"to_do", finding.to_do}});
  }
  json["abilities"] = Json::array();
  for (const Ability& ability : health.abilities) {
    json["abilities"].push_back(
        {{"what", ability.what}, {"works", ability.works}, {"lacks", ability.lacks}});
  }
  json["variables"] = Json::array();
  for (const KnownVariable& variable : variables) {
    json["variables"].push_back({{"name", variable.name}, {"value", variable.value}});
  }
  return {dump(json)};
}

}  // namespace

Verb doctor_verb() {
  return {"doctor", "Say what works on this machine, and what to do about the rest",
          [](CLI::App&, Options&) {}, run, "stretto doctor"};
}

}  // namespace stretto::cli
