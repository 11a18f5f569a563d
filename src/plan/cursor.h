// Reads a line-based text token by token. Every failure names file, line, column, what was expected
// and what was found. Blanks separate tokens, ';' begins a comment that runs to the end of the
// line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace stretto {

class Cursor {
 public:
  Cursor(std::string_view text, std::string_view file_name);

  // Moves to the first token of the next line that has one; false at the end of the text.
  bool next_line();
  bool at_line_end();  // skips blanks first

  // The token here without moving: up to a blank, ';' or the end of the line.
  std::string_view peek();
  bool is_at(std::string_view token);  // skips blanks first
  std::string_view word(std::string_view expected);
  // A letter, then letters, digits and underscores.
  std::string_view name(std::string_view expected);
  int64_t number(int64_t least, int64_t most, std::string_view expected);
  // Above 0, like 1e-06.
  float decimal(std::string_view expected);
  // The rest of the line without comment and blanks at its end.
  std::string_view rest();

  bool accept(char c);  // directly here, no blanks skipped
  void expect(char c);  // the same
  bool accept_token(std::string_view token);
  void expect_token(std::string_view token);
  void expect_line_end();
  void skip_blanks();

  const char* position() const { return here_; }
  uint32_t line() const { return line_; }
  [[noreturn]] void fail(const char* where, std::string_view expected) const;
  // `what`: the whole message after the place.
  [[noreturn]] void fail_with(const char* where, std::string_view what) const;

 private:
  std::string found(const char* where) const;

  const char* here_;
  const char* end_;
  const char* line_start_;
  uint32_t line_ = 0;
  std::string_view file_name_;
};

}  // namespace stretto
