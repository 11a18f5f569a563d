// Scripts that complete the words of a line in a shell, made from the verbs and their options.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace stretto::cli {

std::span<const std::string_view> known_shells();
// Throws UsageError for another shell.
std::string completions_for(std::string_view shell);

}  // namespace stretto::cli
