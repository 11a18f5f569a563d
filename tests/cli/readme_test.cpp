// The README's first lines work as they stand there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "cli/command.h"
#include "core/file.h"
#include "core/text.h"

namespace stretto {
namespace {

const std::string kReadme = read_file(STRETTO_TEST_DIR "/../../README.md", size_t{1} << 20);

// The words of the lines behind `heading` that run the command, without what comments say.
std::vector<std::vector<std::string>> commands_behind(const std::string& heading) {
  std::vector<std::vector<std::string>> commands;
  const size_t at = kReadme.find("\n" + heading + "\n");
  EXPECT_NE(at, std::string::npos) << heading;
  const std::string section = kReadme.substr(at + 1, kReadme.find("\n## ", at + 1) - at - 1);
  for (const std::string_view line : split(section, '\n')) {
    if (!line.starts_with("    stretto ")) continue;
    std::istringstream words(std::string(line.substr(0, line.find('#'))));
    std::vector<std::string> command;
    for (std::string word; words >> word;) command.push_back(word);
    command.erase(command.begin());
    commands.push_back(command);
  }
  return commands;
}

TEST(Readme, LinesToTryWorkWithoutAGpu) {
  const auto commands = commands_behind("## Without a GPU");
  EXPECT_GE(commands.size(), 4u);
  const ScratchFolder scratch;
  for (auto command : commands) {
    std::string file;
    for (std::string& word : command) {
      if (word.ends_with(".html")) file = word = scratch.path(word);
    }
    const Said said = stretto_says(command);
    EXPECT_EQ(said.exit_code, 0) << join(command, " ") << "\n" << said.err;
    EXPECT_NE(file.empty() ? said.out : content_of(file), "") << join(command, " ");
  }
}

TEST(Readme, LinesForGpusAreRightButForTheGpus) {
  const auto commands = commands_behind("## On GPUs");
  EXPECT_GE(commands.size(), 4u);
  for (const auto& command : commands) {
    if (command.front() != "run") continue;  // the others take minutes, or files of the repository
    EXPECT_NE(stretto_says(command).exit_code, 2) << join(command, " ");
  }
}

TEST(Readme, FirstSentenceGoesByTheTable) {
  // 120 rows of 2 and 4 GPUs: the least and the largest of the means, and the least of the rows.
  const size_t at = kReadme.find("\n## Measured\n");
  ASSERT_NE(at, std::string::npos);
  const std::string section = kReadme.substr(at, kReadme.find("\n## ", at + 1) - at);
  double least = 9, largest = 0, worst = 9;
  for (const std::string_view line : split(section, '\n')) {
    const auto cells = split(line, '|');
    if (cells.size() < 6) continue;
    for (size_t i = 3; i <= 4; ++i) {  // M >= 2048, M < 2048
      std::istringstream cell{std::string(cells[i])};
      double mean = 0, row = 0;
      char bracket = 0;
      if (!(cell >> mean >> bracket >> row)) continue;
      least = std::min(least, mean);
      largest = std::max(largest, mean);
      worst = std::min(worst, row);
    }
  }
  char said[80];
  std::snprintf(said, sizeof said, "%.1f to %.1f times as fast", least, largest);
  EXPECT_THAT(kReadme, testing::HasSubstr(said));
  std::snprintf(said, sizeof said, "the slowest of 120 shapes, %.2f times", worst);
  EXPECT_THAT(kReadme, testing::HasSubstr(said));
}

}  // namespace
}  // namespace stretto
