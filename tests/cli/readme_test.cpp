// The README shows what the command prints.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "cli/command.h"
#include "core/file.h"

namespace stretto {
namespace {

// The indented block of the README that begins with `first`, without its indentation.
std::string block_of(const std::string& readme, const std::string& first) {
  const size_t at = readme.find("    " + first);
  std::string block;
  std::istringstream lines(at == std::string::npos ? "" : readme.substr(at));
  for (std::string line; std::getline(lines, line) && (line.empty() || line[0] == ' ');) {
    block += line.empty() ? "\n" : line.substr(4) + "\n";
  }
  return block.substr(0, block.find_last_not_of('\n') + 1);
}

TEST(Readme, PredictedTableIsWhatTheSimulatorSays) {
  const std::string readme = read_file(STRETTO_TEST_DIR "/../../README.md", size_t{1} << 20);
  const std::string table = block_of(readme, "gemm-rs m=8192 n=8192 k=28672 ranks=8 dtype=bf16\n");
  ASSERT_THAT(table, testing::HasSubstr("sequential"));
  const Said said = stretto_says({"simulate", "gemm-rs", "--m", "8192", "--n", "8192", "--k",
                                  "28672", "--ranks", "8", "--strategy", "all", "--no-legend"});
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_THAT(said.out, testing::HasSubstr(table));
}

}  // namespace
}  // namespace stretto
