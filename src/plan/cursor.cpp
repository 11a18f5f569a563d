#include "plan/cursor.h"

#include <fmt/format.h>

#include <charconv>

#include "core/text.h"
#include "stretto/error.h"

namespace stretto {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
bool ends_token(char c) { return is_blank(c) || c == '\n' || c == ';'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_name_part(char c) { return is_name_start(c) || is_digit(c) || c == '_'; }

}  // namespace

Cursor::Cursor(std::string_view text, std::string_view file_name)
    : here_(text.data()),
      end_(text.data() + text.size()),
      line_start_(text.data()),
      line_(1),
      file_name_(file_name) {}

bool Cursor::next_line() {
  while (true) {
    skip_blanks();
    if (here_ == end_) return false;
    if (*here_ == ';') {
      while (here_ != end_ && *here_ != '\n') ++here_;
    } else if (*here_ == '\n') {
      line_start_ = ++here_;
      ++line_;
    } else {
      return true;
    }
  }
}

void Cursor::skip_blanks() {
  while (here_ != end_ && is_blank(*here_)) ++here_;
}

bool Cursor::at_line_end() {
  skip_blanks();
  return here_ == end_ || *here_ == '\n' || *here_ == ';';
}

std::string_view Cursor::peek() {
  skip_blanks();
  const char* stop = here_;
  while (stop != end_ && !ends_token(*stop)) ++stop;
  return {here_, static_cast<size_t>(stop - here_)};
}

bool Cursor::is_at(std::string_view token) {
  skip_blanks();
  if (static_cast<size_t>(end_ - here_) < token.size()) return false;
  const char* const stop = here_ + token.size();
  return std::string_view(here_, token.size()) == token && (stop == end_ || ends_token(*stop));
}

std::string_view Cursor::word(std::string_view expected) {
  const std::string_view token = peek();
  if (token.empty()) fail(here_, expected);
  here_ += token.size();
  return token;
}

std::string_view Cursor::name(std::string_view expected) {
  skip_blanks();
  const char* start = here_;
  if (start == end_ || !is_name_start(*start)) fail(start, expected);
  while (here_ != end_ && is_name_part(*here_)) ++here_;
  return {start, static_cast<size_t>(here_ - start)};
}

int64_t Cursor::number(int64_t least, int64_t most, std::string_view expected) {
  const char* start = here_;
  int64_t value = 0;
  if (start == end_ || !is_digit(*start)) {
    fail(start, fmt::format("{} (a number from {} to {})", expected, least, most));
  }
  const auto [stop, error] = std::from_chars(start, end_, value);
  if (error != std::errc() || value < least || value > most) {
    fail(start, fmt::format("{} (a number from {} to {})", expected, least, most));
  }
  here_ = stop;
  return value;
}

float Cursor::decimal(std::string_view expected) {
  const char* start = here_;
  float value = 0;
  const bool begins = start != end_ && is_digit(*start);
  const auto [stop, error] = begins ? std::from_chars(start, end_, value)
                                    : std::from_chars_result{start, std::errc::invalid_argument};
  if (error != std::errc() || !(value > 0)) {
    fail(start, fmt::format("{} (a number above 0, like 1e-06)", expected));
  }
  here_ = stop;
  return value;
}

std::string_view Cursor::rest() {
  skip_blanks();
  const char* start = here_;
  while (here_ != end_ && *here_ != '\n' && *here_ != ';') ++here_;
  const char* stop = here_;
  while (stop != start && is_blank(stop[-1])) --stop;
  return {start, static_cast<size_t>(stop - start)};
}

bool Cursor::accept(char c) {
  if (here_ == end_ || *here_ != c) return false;
  ++here_;
  return true;
}

void Cursor::expect(char c) {
  if (!accept(c)) fail(here_, fmt::format("'{}'", c));
}

bool Cursor::accept_token(std::string_view token) {
  if (!is_at(token)) return false;
  here_ += token.size();
  return true;
}

void Cursor::expect_token(std::string_view token) {
  if (!accept_token(token)) fail(here_, fmt::format("'{}'", token));
}

void Cursor::expect_line_end() {
  if (!at_line_end()) fail(here_, "the end of the line");
}

std::string Cursor::found(const char* where) const {
  if (where == end_) return "the end of the file";
  if (*where == '\n' || *where == '\r' || *where == ';') return "the end of the line";
  if (is_blank(*where)) return "a blank";
  const char* stop = where;
  while (stop != end_ && !ends_token(*stop)) ++stop;
  return quote({where, static_cast<size_t>(stop - where)});
}

void Cursor::fail(const char* where, std::string_view expected) const {
  fail_with(where, fmt::format("expected {}, found {}", expected, found(where)));
}

void Cursor::fail_with(const char* where, std::string_view what) const {
  throw UsageError(fmt::format("{}:{}:{}: {}", file_name_, line_, where - line_start_ + 1, what));
}

}  // namespace stretto
