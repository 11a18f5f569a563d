// The tutorial works as it is written: its commands run, page by page in one folder, and print what
// it shows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/written_page.h"

namespace stretto {
namespace {

namespace fs = std::filesystem;

const std::string kRoot = STRETTO_TEST_DIR "/../..";

TEST(TutorialPlaces, KeepColumnsApart) {
  EXPECT_EQ(places_of("  a  1.5 22 ▃█ 3 %"), "a # # # %");
  EXPECT_NE(places_of("a 1 2"), places_of("a 1"));
}

TEST(Tutorial, PrintsWhatItShows) {
  const Shell shell;
  std::vector<fs::path> pages;
  for (const auto& entry : fs::directory_iterator(kRoot + "/docs/tutorial")) {
    if (std::isdigit(static_cast<unsigned char>(entry.path().filename().string()[0]))) {
      pages.push_back(entry.path());
    }
  }
  std::sort(pages.begin(), pages.end());
  ASSERT_EQ(pages.size(), 10u);
  for (const fs::path& path : pages) {
    SCOPED_TRACE(path.filename().string());
    const Page page = parse_page(content_of(path.string()));
    EXPECT_FALSE(page.steps.empty());
    for (const File& file : page.files) {
      if (file.name.find('/') == std::string::npos) {
        shell.folder().file(file.name, file.content);
      } else {
        EXPECT_THAT(content_of(kRoot + "/" + file.name), testing::HasSubstr(file.content));
      }
    }
    for (const Step& step : page.steps) {
      SCOPED_TRACE(step.command);
      const Shell::Said said = shell.run(step.command);
      EXPECT_EQ(said.exit_code, 0) << said.output;
      ASSERT_EQ(not_shown(step, said.output), "") << "is not printed, or not there:\n"
                                                  << said.output;
    }
  }
}

}  // namespace
}  // namespace stretto
