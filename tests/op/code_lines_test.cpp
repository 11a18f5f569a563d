// Which lines begin as code, for directives: outside of comments, strings and lines that go on.
#include "op/code_lines.h"

#include <gtest/gtest.h>

#include <string>

namespace stretto {
namespace {

// "10": the first line does, the second does not.
std::string begins(std::string_view text) {
  std::string said;
  for (const bool one : begin_as_code(text)) said += one ? '1' : '0';
  return said;
}

TEST(CodeLines, AreAllButThoseInComments) {
  EXPECT_EQ(begins(""), "1");
  EXPECT_EQ(begins("int a;\nint b;"), "11");
  EXPECT_EQ(begins("int a; /* b\nc */ int d;\n/**/ /*/\n*/\n"), "10101");
  EXPECT_EQ(begins("// /*\nint a; // '\nint b;"), "111");
  EXPECT_EQ(begins("a / *b\n/ /\n"), "111");
}

TEST(CodeLines, HaveStringsWithWhatElseBeginsComments) {
  EXPECT_EQ(begins("#define GLOB \"a/*\"\nint a;\n"), "111");
  EXPECT_EQ(begins("f(\"\\\"/*\", '\"', '\\'', \"//\"); /*\n*/\n"), "101");
  EXPECT_EQ(begins("u8\"/*\"\n1'000'000 /*\n*/ 0x1'0\n"), "1101");
  // What has no end ends with its line, as in words that #if 0 hides.
  EXPECT_EQ(begins("don't /*\nint a;\n"), "111");
}

TEST(CodeLines, AreNoneOfARawString) {
  EXPECT_EQ(begins("R\"(\n#a\\\n\"/* )\"\n"), "1001");
  EXPECT_EQ(begins("u8R\"x()\"\n)x\"\n"), "101");
  EXPECT_EQ(begins("FOR\"(\nint a;\n"), "111");
  EXPECT_EQ(begins("R\"(\nhas no end\n"), "100");
}

TEST(CodeLines, ThatGoOnAreOne) {
  EXPECT_EQ(begins("#define A \\\n#b\nint c;\n"), "1011");
  EXPECT_EQ(begins("// a \\\r\n#b\nint c;\n"), "1011");
  EXPECT_EQ(begins("/\\\n* a\n*\\\n/\n"), "10001");
  EXPECT_EQ(begins("\"a\\\nb\"\n"), "101");
}

}  // namespace
}  // namespace stretto
