#include "cli/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "core/text.h"
#include "stretto/error.h"

namespace stretto::cli {
namespace {

constexpr int kMostTextColumns = 110;
constexpr char kEscape = '\x1b';

// Empty when it is unset.
std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool is_terminal(int descriptor) { return ::isatty(descriptor) == 1 && variable("TERM") != "dumb"; }

// By the convention of no-color.org any text but an empty one means no colours.
bool takes_colours(Colour colour, int descriptor) {
  if (colour != Colour::automatic) return colour == Colour::always;
  return is_terminal(descriptor) && variable("NO_COLOR").empty();
}

bool colours_output = false, colours_errors = false;

std::string_view code_of(Style style) {
  switch (style) {
    case Style::good:
      return "32";
    case Style::bad:
      return "1;31";
    case Style::remark:
      return "33";
    case Style::heading:
      return "1";
  }
  return "0";
}

std::string painted(bool colours, Style style, std::string_view text) {
  if (!colours || text.empty()) return std::string(text);
  return fmt::format("{0}[{1}m{2}{0}[0m", kEscape, code_of(style), text);
}

}  // namespace

int terminal_columns() {
  if (const auto said = int_from(variable("COLUMNS")); said && *said > 0) {
    return static_cast<int>(std::clamp<int64_t>(*said, kLeastColumns, kMostColumns));
  }
  winsize size = {};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    return std::clamp<int>(size.ws_col, kLeastColumns, kMostColumns);
  }
  return kUsualColumns;
}

int text_columns() { return std::min(terminal_columns(), kMostTextColumns); }

bool is_ascii_terminal() {
  if (::isatty(STDOUT_FILENO) != 1) return false;
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    std::string locale(variable(name));
    if (locale.empty()) continue;
    std::transform(locale.begin(), locale.end(), locale.begin(),
                   [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    return locale.find("UTF-8") == locale.npos && locale.find("UTF8") == locale.npos;
  }
  return false;  // many containers say nothing, in terminals that can
}

Colour colour_from(std::string_view word) {
  constexpr std::string_view kWords[] = {"auto", "always", "never"};
  if (word.empty() || word == kWords[0]) return Colour::automatic;
  if (word == kWords[1]) return Colour::always;
  if (word == kWords[2]) return Colour::never;
  throw UsageError(unknown_word("colour setting", word, kWords));
}

void set_colour(Colour colour, bool to_file) {
  colours_output = (!to_file || colour == Colour::always) && takes_colours(colour, STDOUT_FILENO);
  colours_errors = takes_colours(colour, STDERR_FILENO);
}

std::string paint(Style style, std::string_view text) {
  return painted(colours_output, style, text);
}

std::string paint_error(Style style, std::string_view text) {
  return painted(colours_errors, style, text);
}

std::string verdict(bool is_good) {
  return is_good ? paint(Style::good, "yes") : paint(Style::bad, "NO");
}

size_t display_width(std::string_view text) {
  size_t width = 0;
  bool in_escape = false;
  for (const char c : text) {
    if (in_escape) {
      in_escape = c != 'm';
    } else if (c == kEscape) {
      in_escape = true;
    } else {
      width += (static_cast<unsigned char>(c) & 0xc0) != 0x80;  // not what continues a character
    }
  }
  return width;
}

}  // namespace stretto::cli
