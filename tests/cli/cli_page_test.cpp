// docs/cli.md has every verb and option that there is, and none that is not.
#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <string>

#include "cli/command.h"

namespace stretto {
namespace {

std::set<std::string> found_in(const std::string& text, const char* pattern) {
  std::set<std::string> found;
  const std::regex wanted(pattern);
  for (std::sregex_iterator it(text.begin(), text.end(), wanted), end; it != end; ++it) {
    found.insert((*it)[1]);
  }
  return found;
}

class CliPage : public testing::Test {
 protected:
  const std::string page_ = content_of(STRETTO_TEST_DIR "/../../docs/cli.md");
  const std::set<std::string> verbs_ = found_in(page_, "\n    stretto ([a-z]+) ");
};

TEST_F(CliPage, HasEveryVerb) {
  const std::string help = stretto_says({"--help"}).out;
  EXPECT_EQ(verbs_, found_in(help, "\n  ([a-z]+) "));
}

TEST_F(CliPage, HasEveryOption) {
  std::set<std::string> known = {"--help", "--version"};
  for (const std::string& verb : verbs_) {
    const Said said = stretto_says({verb, "--help"});
    ASSERT_EQ(said.exit_code, 0) << verb;
    for (const std::string& option : found_in(said.out, "\n  (?:-[a-z], )?(--[a-z-]+)")) {
      known.insert(option);
      if (option == "--help" || option == "--output" || option == "--processes")
        continue;  // -o, -n
      EXPECT_TRUE(std::regex_search(page_, std::regex(option + "[^a-z-]")))
          << verb << " " << option;
    }
  }
  EXPECT_GT(known.size(), 30u);
  for (const std::string& option : found_in(page_, "[^a-z-](--[a-z][a-z-]*)")) {
    EXPECT_TRUE(known.contains(option)) << option;
  }
}

}  // namespace
}  // namespace stretto
