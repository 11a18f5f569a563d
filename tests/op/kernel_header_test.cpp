// One text of a header and of those that it includes, in which compilers find everyone's lines.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "stretto/edge_kernel.h"

namespace stretto {
namespace {

class KernelHeader : public testing::Test {
 protected:
  KernelHeader() {
    std::string pattern = testing::TempDir() + "/stretto_op_XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    std::filesystem::create_directories(folder_ + "/in/parts");
  }
  ~KernelHeader() override { std::filesystem::remove_all(folder_); }

  void file(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ + "/" + name) << text;
  }
  std::string read(const std::string& name) const {
    const auto text = read_kernel_header(folder_ + "/in", name);
    return text ? *text : "not there";
  }

  std::string folder_;
};

TEST_F(KernelHeader, HasWhatItIncludesInItsPlaceAndOnce) {
  file("in/k.h", "int a;\n#include \"parts/b.h\"\n #  include \"c.h\" // too\nint d;\n");
  file("in/parts/b.h", "#include \"../c.h\"\nint b;");
  file("in/c.h", "int c;");
  EXPECT_EQ(
      read("k.h"),
      "int a;\n#line 1 \"parts/b.h\"\n#line 1 \"c.h\"\nint c;\n#line 2 \"parts/b.h\"\nint b;\n"
      "#line 3 \"k.h\"\n\nint d;\n\n");
  EXPECT_EQ(read("parts/b.h"), "#line 1 \"c.h\"\nint c;\n#line 2 \"parts/b.h\"\nint b;\n");
}

// Headers that include each other end, as with #pragma once.
TEST_F(KernelHeader, MayBeIncludedByWhatItIncludes) {
  file("in/k.h", "#include \"c.h\"\nint k;");
  file("in/c.h", "#include \"k.h\"\nint c;");
  EXPECT_EQ(read("k.h"), "#line 1 \"c.h\"\n\nint c;\n#line 2 \"k.h\"\nint k;\n");
}

// Nothing is taken from outside the folder that the user named.
TEST_F(KernelHeader, LeavesAllElseToTheCompiler) {
  file("outside.h", "int outside;");
  file("in/c.h", "int c;");
  const std::string text =
      "#include \"../outside.h\"\n#include \"" + folder_ + "/in/c.h\"\n#include \"none.h\"\n" +
      "#include <c.h>\n#include \"stretto/device/elements.h\"\n/*\n#include \"c.h\"\n*/ // /*\n";
  file("in/k.h", text);
  EXPECT_EQ(read("k.h"), text + "\n");
  EXPECT_EQ(read("none.h"), "not there");
  EXPECT_EQ(read("parts"), "not there");
}

}  // namespace
}  // namespace stretto
