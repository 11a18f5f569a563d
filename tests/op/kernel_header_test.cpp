// One text of a header and of those that it includes, in which compilers find everyone's lines.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "stretto/edge_kernel.h"
#include "stretto/error.h"

namespace stretto {
namespace {

using testing::HasSubstr;

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
  void link(const std::string& name, const std::string& to) const {
    std::filesystem::create_symlink(to, folder_ + "/" + name);
  }
  std::string read(const std::string& name) const {
    try {
      const auto text = read_kernel_header(folder_ + "/in", name);
      return text ? *text : "not there";
    } catch (const UsageError& error) {
      return std::string("refused: ") + error.what();
    }
  }
  // What stands in the place of an include of a header with that number and text.
  static std::string guarded(int number, const std::string& name, const std::string& text) {
    return fmt::format(
        "#line 1 \"{1}\"\n#ifndef STRETTO_HEADER_{0}\n#define STRETTO_HEADER_{0}\n"
        "#line 1 \"{1}\"\n{2}\n#endif\n",
        number, name, text);
  }

  std::string folder_;
};

TEST_F(KernelHeader, HasWhatItIncludesWhereverThatIsBehindAGuard) {
  file("in/k.h", "int a;\n#include \"parts/b.h\"\n #  include \"c.h\" // too\nint d;\n");
  file("in/parts/b.h", "/* of */ #include \"../c.h\"\nint b;");
  file("in/c.h", "int c;");
  const std::string c = guarded(3, "c.h", "int c;");
  const std::string b = c + "#line 1 \"parts/b.h\"\n#\nint b;";
  EXPECT_EQ(read("k.h"), "int a;\n" + guarded(2, "parts/b.h", b) + "#line 2 \"k.h\"\n#\n" + c +
                             "#line 3 \"k.h\"\n# // too\nint d;\n\n");
}

// Headers that include each other end, also by another name.
TEST_F(KernelHeader, MayBeIncludedByWhatItIncludes) {
  file("in/k.h", "#include \"c.h\"\nint k;");
  file("in/c.h", "#include \"k.h\"\nint c;");
  link("in/same.h", "k.h");
  const std::string c = guarded(2, "c.h", "#\nint c;");
  EXPECT_EQ(read("k.h"), c + "#line 1 \"k.h\"\n#\nint k;\n");
  EXPECT_EQ(read("./k.h"), c + "#line 1 \"./k.h\"\n#\nint k;\n");
  EXPECT_EQ(read("same.h"), c + "#line 1 \"same.h\"\n#\nint k;\n");
}

// A comment that begins behind an include goes on.
TEST_F(KernelHeader, KeepsWhatStandsBehindAnInclude) {
  file("in/k.h", "#include \"c.h\" /* for its\n sum */ int k;");
  file("in/c.h", "int c;");
  EXPECT_EQ(read("k.h"),
            guarded(2, "c.h", "int c;") + "#line 1 \"k.h\"\n# /* for its\n sum */ int k;\n");
}

TEST_F(KernelHeader, MayBeginAndEndAsOnlyFilesMay) {
  file("in/k.h", "\xef\xbb\xbfint k;\n#include \"c.h\"");
  file("in/c.h", "\xef\xbb\xbfint c; \\");
  EXPECT_EQ(read("k.h"), "int k;\n" + guarded(2, "c.h", "int c; \\\n") + "#line 2 \"k.h\"\n#\n");
}

// Compilers heed no #line in what they skip, and count the lines of what was included there.
TEST_F(KernelHeader, SaysAgainWhichLineItIsBehindWhatMayBeSkipped) {
  file("in/k.h", "#if 0\n#include \"c.h\"\n#else /*\n*/\n#endif\nint k;");
  file("in/c.h", "#ifdef C\n#endif\nint c;");
  EXPECT_EQ(read("k.h"), "#if 0\n" + guarded(2, "c.h", "#ifdef C\n#endif\nint c;") +
                             "#line 2 \"k.h\"\n#\n#else /*\n*/\n#line 5 \"k.h\"\n#endif\n"
                             "#line 6 \"k.h\"\nint k;\n");
}

TEST_F(KernelHeader, LeavesAllElseToTheCompiler) {
  file("in/c.h", "int c;");
  const std::string text =
      "#include \"none.h\"\n#include <c.h>\n#include \"stretto/device/elements.h\"\n/*\n#include "
      "\"c.h\"\n*/ // /*\n#include \"\"\n#include \"parts\"\n#include \"c.h\n#include C\n#pragma x";
  file("in/k.h", text);
  EXPECT_EQ(read("k.h"), text + "\n");
  EXPECT_EQ(read("none.h"), "not there");
  EXPECT_EQ(read("parts"), "not there");
}

// Nothing is taken from outside the folder that the user named, by us or by compilers.
TEST_F(KernelHeader, MayNotLeaveTheFolder) {
  file("outside.h", "int outside;");
  for (const std::string& name :
       {std::string("\"../outside.h\""), "\"" + folder_ + "/in/c.h\"",
        std::string("\"stretto/../../outside.h\""), std::string("</etc/hostname>"),
        std::string("<../../etc/hostname>"), std::string("<stretto/../../outside.h>")}) {
    file("in/k.h", "int k;\n#include " + name + "\n");
    EXPECT_THAT(read("k.h"),
                HasSubstr("refused: k.h:2 includes '" + name.substr(1, name.size() - 2) +
                          "', which is not in the folder of the headers: "));
  }
  EXPECT_EQ(read("../outside.h"), "refused: '../outside.h' leaves the folder of the headers");
}

TEST_F(KernelHeader, MayBeALinkWithinTheFolderOnly) {
  file("outside.h", "int outside;");
  file("in/parts/c.h", "int c;");
  link("in/out.h", "../outside.h");
  link("in/c.h", "parts/c.h");
  file("in/k.h", "#include \"out.h\"\n");
  const std::string refusal =
      "refused: 'out.h' is a link that leads out of the folder of the headers: put the file itself "
      "there";
  EXPECT_EQ(read("k.h"), refusal);
  EXPECT_EQ(read("out.h"), refusal);
  EXPECT_EQ(read("c.h"), "int c;\n");
  link("in/self.h", "self.h");
  file("in/k.h", "#include \"self.h\"\n");
  EXPECT_EQ(read("k.h"), "#include \"self.h\"\n\n");
}

TEST_F(KernelHeader, IsOfAThousandAtMost) {
  std::string text;
  for (int i = 1; i < 1000; ++i) {
    const std::string name = fmt::format("{}.h", i);
    file("in/" + name, "");
    text += "#include \"" + name + "\"\n";
  }
  file("in/k.h", text);
  EXPECT_THAT(read("k.h"), HasSubstr("STRETTO_HEADER_1000"));
  file("in/parts/more.h", "");
  file("in/k.h", text + "#include \"parts/more.h\"\n");
  EXPECT_EQ(read("k.h"), "refused: 'k.h' and what it includes are more than 1000 headers");
}

// Each half includes the next twice: that is no reason to read for ever.
TEST_F(KernelHeader, HasALimitOfBytes) {
  const std::string refusal =
      "refused: 'k.h' and what it includes are more than 16 MiB where each stands wherever it is "
      "included";
  for (int i = 0; i < 40; ++i) {
    const std::string next = fmt::format("#include \"{}.h\"\n", i + 1);
    file(fmt::format("in/{}.h", i), next + next);
  }
  file("in/40.h", "");
  file("in/k.h", "#include \"0.h\"\n");
  EXPECT_EQ(read("k.h"), refusal);
  std::string text;
  for (int i = 0; i < 17; ++i) {
    file(fmt::format("in/{}.h", i), std::string(size_t{1} << 20, '/'));
    text += fmt::format("#include \"{}.h\"\n", i);
  }
  file("in/k.h", text);
  EXPECT_EQ(read("k.h"), refusal);
}

}  // namespace
}  // namespace stretto
