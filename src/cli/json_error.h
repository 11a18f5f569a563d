// What went wrong, for programs: where --json is given a verb that fails prints an object all the
// same.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cli/verb.h"

namespace stretto::cli {

// Whether the words of a line ask for JSON; by themselves, since the line may be what is wrong.
bool ask_for_json(std::span<char* const> words);

// {"stretto", "schema", "verb", "error": {"kind", "exit_status", "message"}}
std::string json_error(std::string_view verb, const std::string& message, ExitCode code);

}  // namespace stretto::cli
