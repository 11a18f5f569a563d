// The scripts for shells complete verbs, options and values.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "cli/command.h"

namespace stretto {
namespace {

using testing::HasSubstr;

// What bash offers for a line; its last word, maybe empty, is the one that is completed.
std::string bash_offers(const std::string& words) {
  const ScratchFolder scratch;
  const Said script = stretto_says({"completions", "bash"});
  EXPECT_EQ(script.exit_code, 0) << script.err;
  const std::string file =
      scratch.file("complete.bash", script.out + "COMP_WORDS=(stretto " + words +
                                        ")\n"
                                        "COMP_CWORD=$((${#COMP_WORDS[@]}-1))\n"
                                        "_stretto\n"
                                        "echo \"${COMPREPLY[@]}\"\n");
  const std::string command = "bash '" + file + "' >'" + scratch.path("out") + "' 2>&1";
  EXPECT_EQ(std::system(command.c_str()), 0) << content_of(scratch.path("out"));
  return content_of(scratch.path("out"));
}

class BashCompletions : public testing::Test {
 protected:
  void SetUp() override {
    if (std::system("bash -c 'type compgen' >/dev/null 2>&1") != 0) GTEST_SKIP() << "no bash here";
  }
};

TEST_F(BashCompletions, Verbs) {
  EXPECT_EQ(bash_offers("sim"), "simulate\n");
  EXPECT_THAT(bash_offers("''"), HasSubstr("completions help\n"));
}

TEST_F(BashCompletions, OptionsOfTheVerb) {
  EXPECT_EQ(bash_offers("simulate gemm-rs --crit"), "--critical-path\n");
  EXPECT_EQ(bash_offers("run gemm-rs --crit"), "\n");
}

TEST_F(BashCompletions, Values) {
  EXPECT_EQ(bash_offers("run gemm-rs --strategy dec"), "decomposed\n");
  EXPECT_EQ(bash_offers("run gemm-rs --strategy tiles,dec"), "tiles,decomposed\n");
  EXPECT_EQ(bash_offers("run moe-ep --schedule come"), "comet\n");
  EXPECT_EQ(bash_offers("run gemm-rs --machine h200x1"), "h200x16\n");
  EXPECT_EQ(bash_offers("plan --layer llama-3-70b:d"), "llama-3-70b:down\n");
  EXPECT_THAT(bash_offers("run gemm-r"), HasSubstr("gemm-rs"));
  EXPECT_THAT(bash_offers("bench moe-"), HasSubstr("moe-ep"));  // of any operator
  EXPECT_EQ(bash_offers("help comp"), "compile completions\n");
}

TEST(Completions, OfEveryShellHaveEveryOption) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const Said said = stretto_says({"completions", shell});
    EXPECT_EQ(said.exit_code, 0);
    for (const char* option : {"critical-path", "perfetto", "against", "no-shrink", "layer"}) {
      EXPECT_THAT(said.out, HasSubstr(option)) << shell;
    }
  }
}

}  // namespace
}  // namespace stretto
