// Extents: a tensor's size as an expression of the graph's sizes, "(heads+2*kv-heads)*head-dim".
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stretto {

// Sums of products of numbers and named sizes, kept as they were written but for blanks.
class Extent {
 public:
  // Reads an expression that begins at `at` and moves `at` behind it. Of an error: `why` says what
  // was expected, and `at` is where.
  static std::optional<Extent> parse(std::string_view text, size_t& at, std::string& why);

  const std::string& text() const { return text_; }
  // Names of sizes that it speaks of, and where in text().
  struct Name {
    std::string_view name;
    size_t at;
  };
  std::vector<Name> names() const;
  // `value(name)` of each; nothing where a step exceeds 2^62.
  template <typename Value>
  std::optional<int64_t> value(const Value& value_of) const {
    std::vector<int64_t> stack;
    for (const Step& step : steps_) {
      if (step.kind == Step::Kind::number) {
        stack.push_back(step.number);
      } else if (step.kind == Step::Kind::size) {
        stack.push_back(value_of(std::string_view(text_).substr(step.at, step.length)));
      } else {
        const int64_t right = stack.back();
        stack.pop_back();
        int64_t& left = stack.back();
        const bool bad = step.kind == Step::Kind::add ? __builtin_add_overflow(left, right, &left)
                                                      : __builtin_mul_overflow(left, right, &left);
        if (bad || left > (int64_t{1} << 62)) return std::nullopt;
      }
    }
    return stack.back();
  }

 private:
  // In the order of a stack machine.
  struct Step {
    enum class Kind : uint8_t { number, size, add, multiply };
    Kind kind = Kind::number;
    int64_t number = 0;
    size_t at = 0, length = 0;  // of a size's name in text_
  };
  class Parser;

  std::string text_;
  std::vector<Step> steps_;
};

// Letters, digits, '-', '_' and '.', beginning with a letter.
bool is_name_start(char c);
bool is_name_char(char c);

}  // namespace stretto
