// What the text of a verb is written for: how wide it may be, and whether colours are seen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace stretto::cli {

inline constexpr int kUsualColumns = 80, kLeastColumns = 40, kMostColumns = 1000;

// Columns: what COLUMNS says, else the terminal at standard output, else 80.
int terminal_columns();
// Paragraphs are not wider than one reads with ease.
int text_columns();
// Whether the locale of a terminal has no characters beyond ASCII. Files always have them.
bool is_ascii_terminal();

enum class Colour : uint8_t { automatic, always, never };
enum class Style : uint8_t { good, bad, remark, heading };

// Throws UsageError for a word that is not auto, always or never; empty is auto.
Colour colour_from(std::string_view word);
// What the line asks for. `to_file`: the result goes to a file, which has no colours of its own
// accord. Until it is called nothing is coloured.
void set_colour(Colour colour, bool to_file);

// `text` in a style where colours are seen, else as it is.
std::string paint(Style style, std::string_view text);
// The same for standard error.
std::string paint_error(Style style, std::string_view text);
// "yes" or "NO", painted.
std::string verdict(bool is_good);

// Columns that `text` takes: escape sequences take none, a character of UTF-8 takes one.
size_t display_width(std::string_view text);

}  // namespace stretto::cli
