// stretto env: the environment variables that Stretto reads, with their values.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/json.h"
#include "cli/known_variables.h"
#include "cli/table.h"
#include "cli/verb.h"
#include "core/text.h"

namespace stretto::cli {
namespace {

Outcome run(const Options& options) {
  Json json = json_header("env");
  json["variables"] = Json::array();
  std::string text;
  for (const auto& [name, meaning, value] : known_variables()) {
    json["variables"].push_back({{"name", name}, {"value", value}, {"meaning", meaning}});
    const std::string now = value.empty() ? "unset" : quote(value, 1000);
    text += labelled(name, fmt::format("{}; now {}", meaning, now), 24);
  }
  return {options.json ? dump(json) : text, kGood};
}

}  // namespace

Verb env_verb() {
  return {"env", "List the environment variables that Stretto reads", [](CLI::App&, Options&) {},
          run, "stretto env"};
}

}  // namespace stretto::cli
