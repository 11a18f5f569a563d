// The pages about operators name every operator and stage, and show the example as it is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "stretto/operator.h"

namespace stretto {
namespace {

using testing::HasSubstr;

std::string text_of(const std::string& path) {
  std::ifstream file(STRETTO_TEST_DIR "/../../" + path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

TEST(OperatorPages, ListEveryOperatorWithItsSizes) {
  const std::string page = text_of("docs/operators.md");
  for (const auto& graph : known_graphs()) {
    const size_t row = page.find("`" + name_of(*graph) + "`");
    ASSERT_NE(row, std::string::npos) << name_of(*graph);
    std::string sizes;
    for (const std::string& size : sizes_of(*graph)) sizes += " " + size;
    const std::string line = page.substr(row, page.find('\n', row) - row);
    EXPECT_THAT(line, HasSubstr("|" + sizes + " |"));
  }
}

TEST(OperatorPages, GraphFormatShowsTheExamplesAsTheyAre) {
  for (const char* name : {"parallel_block", "teams"}) {
    const std::string file = text_of(std::string("examples/") + name + ".graph");
    const size_t begin = file.find("\ngraph ") + 1;
    ASSERT_NE(begin, 0u);
    EXPECT_THAT(text_of("docs/graph-format.md"), HasSubstr("```\n" + file.substr(begin) + "```\n"));
  }
}

TEST(OperatorPages, GraphFormatHasEveryStageAndEdge) {
  const std::string page = text_of("docs/graph-format.md");
#define STRETTO_HAS(name, text, operands, goes, meaning) \
  EXPECT_THAT(page, HasSubstr(std::string("`") + (text) + " "));
  STRETTO_STAGES(STRETTO_HAS)
#undef STRETTO_HAS
#define STRETTO_HAS(name, text, ...) EXPECT_THAT(page, HasSubstr(std::string("| ") + (text)));
  STRETTO_EDGES(STRETTO_HAS)
#undef STRETTO_HAS
}

}  // namespace
}  // namespace stretto
