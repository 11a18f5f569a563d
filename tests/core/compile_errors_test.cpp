// What is told of a compiler's report, in one line.
#include "core/compile_errors.h"

#include <gtest/gtest.h>

namespace stretto {
namespace {

TEST(CompileErrors, AreTheFirstAndHowManyFollow) {
  EXPECT_EQ(
      first_compile_error("keep.h: In function 'f':\nkeep.h:3:5: error: no 'g' here\n  3 |\n"),
      "keep.h:3:5: error: no 'g' here");
  EXPECT_EQ(first_compile_error("keep.h(3): error: no g\n\nkeep.h(7): error: no h\n2 errors\n"),
            "keep.h(3): error: no g (and 1 more)");
}

TEST(CompileErrors, AreWhatElseIsSaidWhereNoneIsCalledOne) {
  EXPECT_EQ(first_compile_error("\nkilled\nbye\n"), "killed");
  EXPECT_EQ(first_compile_error("ptxas info : 0 bytes\nptxas fatal : Unresolved extern 'f'\n"),
            "ptxas fatal : Unresolved extern 'f'");
  EXPECT_EQ(first_compile_error(" \n"), "the compiler ended without saying why");
}

// Of what the user does not know, the last line of the user's above it.
TEST(CompileErrors, InOtherHeadersNameTheUsersLine) {
  const char* const report =
      "/tmp/x/include/stretto/a.h: In instantiation of 'f<int>':\n"
      "keep.h:12:9:   required from 'void keep<int>()'\n"
      "the graph's kernel keep:1:3:   required from here\n"
      "/tmp/x/include/stretto/a.h:33:9: error: no 'x' in 'int'\n";
  EXPECT_EQ(first_compile_error(report, "/tmp/x/include/"),
            "stretto/a.h:33:9: error: no 'x' in 'int' (by way of keep.h:12)");
}

}  // namespace
}  // namespace stretto
