// The commands that the documents show are right: what needs no GPU runs, and prints what is shown
// below it; the rest is refused for want of a GPU and for nothing else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "cli/written_page.h"

namespace stretto {
namespace {

namespace fs = std::filesystem;

const std::string kRoot = STRETTO_TEST_DIR "/../..";
constexpr int kTimedOut = 124;

// Lines with words that stand for others, and those of other shells.
bool is_form(const std::string& line) {
  static const std::regex stands_for(
      R"(\b(OP|FILE|NAME|SHELL|VERB|CMD|RANKS)\b|\[OP\]|\[NAME\]|\$\{)");
  // The overview of the verbs: what each does stands behind it.
  static const std::regex overview(R"(^stretto [a-z]+ {6,}[a-z])");
  return std::regex_search(line, stands_for) || std::regex_search(line, overview);
}

// "    stretto ..." as well as "    $ stretto ..." with what it prints below; without comments.
std::vector<Step> steps_of(const std::string& page) {
  std::vector<Step> steps = parse_page(page).steps;
  static const std::regex command(R"(^    ((STRETTO_[A-Z_]+=\S+ )?stretto [a-z].*)$)");
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    std::smatch found;
    if (std::regex_match(line, found, command)) steps.push_back({found[1], {}});
  }
  std::erase_if(steps, [](const Step& step) { return is_form(step.command); });
  return steps;
}

TEST(DocumentLines, Work) {
  // What takes longer has begun, which no bad line does.
  const Shell shell("stretto() { timeout 2 stretto \"$@\"; }\n");
  for (const char* folder : {"examples", "bench"}) {
    fs::create_directory_symlink(fs::absolute(kRoot + "/" + folder), shell.folder().path(folder));
  }
  fs::create_directories(shell.folder().path(".config/fish/completions"));
  shell.folder().file("config.json",
                      R"({"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 2,
                          "num_attention_heads": 16, "num_key_value_heads": 4})");
  std::vector<fs::path> pages;
  for (const auto& entry : fs::directory_iterator(kRoot + "/docs")) {
    if (entry.path().extension() == ".md") pages.push_back(entry.path());
  }
  std::sort(pages.begin(), pages.end());
  size_t found = 0;
  for (const fs::path& path : pages) {
    SCOPED_TRACE(path.filename().string());
    for (const Step& step : steps_of(content_of(path.string()))) {
      SCOPED_TRACE(step.command);
      ++found;
      const Shell::Said said = shell.run(step.command);
      if (said.exit_code == kTimedOut) continue;
      if (said.exit_code == 3) {
        EXPECT_THAT(said.output, testing::HasSubstr("no CUDA driver"));
        continue;
      }
      EXPECT_EQ(said.exit_code, 0) << said.output;
      EXPECT_EQ(not_shown(step, said.output), "") << "is not printed, or not there:\n"
                                                  << said.output;
    }
  }
  EXPECT_GT(found, 40u);
}

}  // namespace
}  // namespace stretto
