#include "core/text.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace stretto {
namespace {

TEST(IntFrom, ReadsTheWholeTextOrNothing) {
  EXPECT_EQ(int_from("0"), 0);
  EXPECT_EQ(int_from("-12"), -12);
  EXPECT_EQ(int_from("9223372036854775807"), std::numeric_limits<int64_t>::max());
  for (const char* bad : {"", "-", "1.5", "12a", " 1", "1 ", "+1", "0x10", "1e3"}) {
    EXPECT_EQ(int_from(bad), std::nullopt) << bad;
  }
}

TEST(IntFrom, RefusesOverflow) {
  EXPECT_EQ(int_from("9223372036854775808"), std::nullopt);
  EXPECT_EQ(int_from("-9223372036854775809"), std::nullopt);
}

TEST(Split, KeepsEmptyPieces) {
  using Parts = std::vector<std::string_view>;
  EXPECT_EQ(split("", ','), Parts{""});
  EXPECT_EQ(split("a", ','), Parts{"a"});
  EXPECT_EQ(split("a,,b,", ','), (Parts{"a", "", "b", ""}));
}

TEST(UnknownWord, SuggestsTheNearestAndListsAll) {
  const std::string_view known[] = {"sequential", "tiles", "waves"};
  EXPECT_EQ(unknown_word("preset", "tile", known),
            "unknown preset 'tile' (did you mean 'tiles'?); known: sequential, tiles, waves");
  EXPECT_EQ(unknown_word("preset", "xyzzy", known),
            "unknown preset 'xyzzy'; known: sequential, tiles, waves");
  const std::string_view targets[] = {"emu", "cuda"};
  EXPECT_EQ(unknown_word("target", "gpu", targets), "unknown target 'gpu'; known: emu, cuda");
  EXPECT_EQ(unknown_word("tensor", "x", {}), "unknown tensor 'x'; there is none");
}

TEST(PlaceOfByte, CountsLinesAndColumnsFromOne) {
  EXPECT_EQ(place_of_byte("", 0), "line 1, column 1");
  EXPECT_EQ(place_of_byte("{", 2), "line 1, column 2");
  EXPECT_EQ(place_of_byte("ab\ncd", 3), "line 1, column 3");
  EXPECT_EQ(place_of_byte("ab\ncd", 5), "line 2, column 2");
}

TEST(Quote, CutsAndEscapesWhatComesFromOutside) {
  EXPECT_EQ(quote("tiles"), "'tiles'");
  EXPECT_EQ(quote(std::string("a\0\n\xff", 4)), "'a\\x00\\x0a\\xff'");
  EXPECT_EQ(quote("abcdef", 3), "'abc...'");
  EXPECT_EQ(in_one_line("a b/\xc3\xa9.plan"), "a b/\xc3\xa9.plan");
  EXPECT_EQ(in_one_line("a\n\x1b[31m\x7f"), "a\\x0a\\x1b[31m\\x7f");
}

}  // namespace
}  // namespace stretto
