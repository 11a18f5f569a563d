// The command line: the verbs with their options, and what is said of a line that is wrong.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/verb.h"

namespace stretto::cli {

inline constexpr std::string_view kAbout =
    "Stretto: distributed LLM operators with communication hidden behind computation.\n"
    "Operator + schedule + machine make a plan; each verb looks at it from one side.";

// By group, in the order in which --help has them.
std::span<const Verb> all_verbs();
const Verb* find_verb(std::string_view name);  // null: there is none

// Adds all verbs with their options, which write into `options`.
void add_verbs(CLI::App& app, Options& options);

// `words` of the line, its options by the names that they have now.
std::vector<std::string> with_present_names(std::vector<std::string> words);

// Throws UsageError where the line's first word is no verb. CLI11 would only say that some
// subcommand is required.
void require_known_verb(std::string_view word);
// What is wrong with a line that CLI11 refuses for the reason `what`.
std::string usage_message(const CLI::App& app, std::string what);

}  // namespace stretto::cli
