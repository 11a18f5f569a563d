// stretto env: the environment variables that Stretto reads, with their values.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/json.h"
#include "cli/table.h"
#include "cli/verb.h"
#include "core/environment.h"
#include "core/text.h"
#include "fabric/job.h"
#include "fabric/job_variables.h"

namespace stretto::cli {
namespace {

Outcome run(const Options& options) {
  Json json = json_header("env");
  json["variables"] = Json::array();
  std::string text;
  const auto add = [&](std::string_view name, std::string_view meaning, const std::string& value) {
    json["variables"].push_back({{"name", name}, {"value", value}, {"meaning", meaning}});
    const std::string now = value.empty() ? "unset" : quote(value, 1000);
    text += labelled(name, fmt::format("{}; now {}", meaning, now), 24);
  };
  for (const EnvironmentVariable& row : environment_variables()) {
    add(row.variable, row.meaning, environment().*row.field);
  }
  for (const fabric::JobVariable& row : fabric::job_variables()) {
    const char* value = fabric::lookup_environment(row.name);
    add(row.name, row.meaning, value == nullptr ? "" : row.is_secret ? "(hidden)" : value);
  }
  return {options.json ? dump(json) : text, kGood};
}

}  // namespace

Verb env_verb() {
  return {"env", "List the environment variables that Stretto reads", [](CLI::App&, Options&) {},
          run, "stretto env"};
}

}  // namespace stretto::cli
