#include "cli/json_error.h"

#include <nlohmann/json.hpp>

#include "cli/json.h"

namespace stretto::cli {
namespace {

std::string_view kind_of_error(ExitCode code) {
  switch (code) {
    case kBadUsage:
      return "usage";
    case kSystemFault:
      return "system";
    case kGood:
    case kWrong:
      break;
  }
  return "wrong";
}

}  // namespace

bool ask_for_json(std::span<char* const> words) {
  for (const std::string_view word : words) {
    if (word == "--") return false;  // what follows is another command's
    if (word == "--json") return true;
  }
  return false;
}

std::string json_error(std::string_view verb, const std::string& message, ExitCode code) {
  Json json = json_header(verb);
  json["error"] = {{"kind", kind_of_error(code)}, {"exit_status", int{code}}, {"message", message}};
  return dump(json);
}

}  // namespace stretto::cli
