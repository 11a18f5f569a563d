// Edits of a sample plan that are refused: where, and with what message.
#pragma once

#include <gtest/gtest.h>

#include <ostream>
#include <string_view>

namespace stretto {

struct Edit {
  std::string_view from, to;  // the first occurrence of `from` becomes `to`
  std::string_view place, message;
};

inline void PrintTo(const Edit& edit, std::ostream* out) { *out << edit.from << " -> " << edit.to; }

class ParseErrors : public testing::TestWithParam<Edit> {};

}  // namespace stretto
