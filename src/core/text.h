// Checked parsing of small texts: words and numbers that come from users, files and environment.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stretto {

// The whole text as a decimal integer ("-12"); nothing when it is anything else or overflows.
std::optional<int64_t> int_from(std::string_view text);

// The pieces between separators; "a,,b" has an empty one, "" has one.
std::vector<std::string_view> split(std::string_view text, char separator);

std::string join(std::span<const std::string> parts, std::string_view separator);

// "unknown preset 'tile' (did you mean 'tiles'?); known: sequential, tiles, waves"
// The word is quoted safely: long or unprintable input is cut and escaped.
std::string unknown_word(std::string_view what, std::string_view word,
                         std::span<const std::string_view> known);

// "line 2, column 5": where the `number`th byte stands, counted from 1 as parsers of JSON do.
std::string place_of_byte(std::string_view text, size_t number);

// Text from outside, fit for one line of a message: printable ASCII, at most `limit` characters.
std::string quote(std::string_view text, size_t limit = 40);

// A name from outside as it is, but with its control characters escaped: one that ends a line or
// moves a terminal's cursor does neither.
std::string in_one_line(std::string_view name);

// A path for a message: its begin and end, where it is longer than anyone would read.
std::string shortened(std::string_view path);

}  // namespace stretto
