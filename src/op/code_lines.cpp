#include "op/code_lines.h"

#include <algorithm>
#include <iterator>
#include <string>

namespace stretto {
namespace {

constexpr std::string_view kRawPrefixes[] = {"R", "LR", "uR", "UR", "u8R"};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_of_word(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

// Reads as compilers do before they look at directives. What has no end ends with its line, as they
// have it; so may an apostrophe in what they skip.
class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  std::vector<bool> lines() && {
    while (peek() != '\0') {
      const char c = take();
      if (c == '"' || c == '\'') {
        skip_quoted(c);
      } else if (c == '/' && peek() == '/') {
        while (peek() != '\n' && peek() != '\0') take();
      } else if (c == '/' && peek() == '*') {
        take();
        skip_comment();
      } else if (is_of_word(c)) {
        skip_word(c);
      }
    }
    return std::move(begins_);
  }

 private:
  // What is next behind lines that go on; a zero at the end, and zeros that there are, are blanks.
  char peek() {
    while (true) {
      const std::string_view rest = text_.substr(at_);
      if (rest.empty()) return '\0';
      const size_t joins = rest.starts_with("\\\n") ? 2 : rest.starts_with("\\\r\n") ? 3 : 0;
      if (joins == 0) return rest[0] == '\0' ? ' ' : rest[0];
      at_ += joins;
      begins_.push_back(false);
    }
  }
  char take(bool is_code = true) {
    const char c = peek();
    if (c == '\n') begins_.push_back(is_code);
    if (c != '\0') ++at_;
    return c;
  }

  void skip_quoted(char quote) {
    while (peek() != '\n' && peek() != '\0') {
      const char c = take();
      if (c == quote) return;
      if (c == '\\' && peek() != '\n') take();
    }
  }
  void skip_comment() {
    for (char before = ' '; peek() != '\0';) {
      const char c = take(false);
      if (before == '*' && c == '/') return;
      before = c;
    }
  }
  // Numbers have apostrophes between digits.
  void skip_word(char first) {
    std::string word(1, first);
    while (is_of_word(peek()) || (is_digit(first) && peek() == '\'')) word += take();
    if (peek() == '"' && std::find(std::begin(kRawPrefixes), std::end(kRawPrefixes), word) !=
                             std::end(kRawPrefixes)) {
      skip_raw();
    }
  }
  // From its quote on; nothing joins lines in it.
  void skip_raw() {
    const size_t open = text_.find('(', at_);
    size_t end = text_.size();
    if (open != std::string_view::npos) {
      const std::string close = ")" + std::string(text_.substr(at_ + 1, open - at_ - 1)) + "\"";
      const size_t found = text_.find(close, open);
      if (found != std::string_view::npos) end = found + close.size();
    }
    for (; at_ < end; ++at_) {
      if (text_[at_] == '\n') begins_.push_back(false);
    }
  }

  const std::string_view text_;
  size_t at_ = 0;
  std::vector<bool> begins_ = {true};
};

}  // namespace

std::vector<bool> begin_as_code(std::string_view text) { return Lexer(text).lines(); }

}  // namespace stretto
