#include "op/extent.h"

#include "core/text.h"

namespace stretto {

bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_name_char(char c) {
  return is_name_start(c) || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
}

class Extent::Parser {
 public:
  Parser(std::string_view text, size_t at) : text_(text), at_(at) {}

  bool sum(int depth = 0) {
    if (!product(depth)) return false;
    while (skip_blanks(), is('+')) {
      take();
      if (!product(depth)) return false;
      extent_.steps_.push_back({Step::Kind::add});
    }
    return true;
  }

  Extent extent_;
  std::string why_;
  size_t at() const { return at_; }

 private:
  static constexpr int kMostDepth = 16;
  static constexpr size_t kMostSteps = 64;

  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }
  bool is(char c) const { return at_ < text_.size() && text_[at_] == c; }
  void take() { extent_.text_ += text_[at_++]; }
  bool fail(std::string why) {
    why_ = std::move(why);
    return false;
  }

  bool product(int depth) {
    if (!factor(depth)) return false;
    while (skip_blanks(), is('*')) {
      take();
      if (!factor(depth)) return false;
      extent_.steps_.push_back({Step::Kind::multiply});
    }
    return true;
  }

  bool factor(int depth) {
    skip_blanks();
    if (extent_.steps_.size() >= kMostSteps || depth >= kMostDepth) {
      return fail("a shorter expression");
    }
    if (is('(')) {
      take();
      if (!sum(depth + 1)) return false;
      skip_blanks();
      if (!is(')')) return fail("')'");
      take();
      return true;
    }
    const size_t begin = at_;
    if (at_ < text_.size() && is_name_start(text_[at_])) {
      const size_t at = extent_.text_.size();
      while (at_ < text_.size() && is_name_char(text_[at_])) take();
      extent_.steps_.push_back({Step::Kind::size, 0, at, at_ - begin});
      return true;
    }
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') take();
    const std::optional<int64_t> number = int_from(text_.substr(begin, at_ - begin));
    if (!number) {
      at_ = begin;
      return fail("a number or the name of a size");
    }
    extent_.steps_.push_back({Step::Kind::number, *number});
    return true;
  }

  std::string_view text_;
  size_t at_;
};

std::optional<Extent> Extent::parse(std::string_view text, size_t& at, std::string& why) {
  Parser parser(text, at);
  const bool good = parser.sum();
  at = parser.at();
  if (good) return std::move(parser.extent_);
  why = std::move(parser.why_);
  return std::nullopt;
}

std::vector<Extent::Name> Extent::names() const {
  std::vector<Name> names;
  for (const Step& step : steps_) {
    if (step.kind == Step::Kind::size) {
      names.push_back({std::string_view(text_).substr(step.at, step.length), step.at});
    }
  }
  return names;
}

}  // namespace stretto
