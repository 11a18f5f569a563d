// stretto env: the environment variables that Stretto reads, with their values.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/json.h"
#include "cli/table.h"
#include "cli/verb.h"
#include "core/environment.h"
#include "core/text.h"

namespace stretto::cli {
namespace {

Outcome run(const Options& options) {
  Json json = json_header("env");
  json["variables"] = Json::array();
  std::string text;
  for (const EnvironmentVariable& row : environment_variables()) {
    const std::string& value = environment().*row.field;
    json["variables"].push_back(
        {{"name", row.variable}, {"value", value}, {"meaning", row.meaning}});
    text += labelled(
        row.variable,
        fmt::format("{}; now {}", row.meaning, value.empty() ? "unset" : quote(value, 1000)), 24);
  }
  return {options.json ? dump(json) : text, kGood};
}

}  // namespace

Verb env_verb() {
  return {"env", "List the environment variables that Stretto reads", [](CLI::App&, Options&) {},
          run, "stretto env"};
}

}  // namespace stretto::cli
