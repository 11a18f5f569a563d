// The tutorial works as it is written: its commands run, page by page in one folder, and print what
// it shows. Of numbers, which a better simulator would change, only the place is compared.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "cli/command.h"

namespace stretto {
namespace {

namespace fs = std::filesystem;

const std::string kRoot = STRETTO_TEST_DIR "/../..";

struct Step {
  std::string command;
  std::vector<std::string> shown;  // what the page shows of its output
};

struct File {
  std::string name, content;
};

struct Page {
  std::vector<Step> steps;
  std::vector<File> files;  // a name with a slash is the repository's, of which it is a part
};

// "    $ COMMAND" and the lines below it; "```LANGUAGE NAME" and what it encloses.
Page parse(const std::string& text) {
  Page page;
  File* file = nullptr;
  bool in_fence = false;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```")) {
      const size_t space = line.find(' ');
      file = nullptr;
      if (!in_fence && space != std::string::npos) {
        page.files.push_back({line.substr(space + 1), ""});
        file = &page.files.back();
      }
      in_fence = !in_fence;
    } else if (in_fence) {
      if (file != nullptr) file->content += line + "\n";
    } else if (line.starts_with("    $ ")) {
      page.steps.push_back({line.substr(6), {}});
    } else if (line.starts_with("    ") && !page.steps.empty()) {
      if (line != "    ...") page.steps.back().shown.push_back(line);
    }
  }
  return page;
}

// Words behind one blank each, without charts, and with # for a number: columns stay apart.
std::string places_of(const std::string& line) {
  std::string out;
  bool is_apart = false;
  for (const char c : line) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x80) continue;
    if (std::isspace(byte)) {
      is_apart = true;
      continue;
    }
    const bool is_number = std::isdigit(byte) || c == '.';
    if (is_number && !is_apart && !out.empty() && out.back() == '#') continue;
    if (is_apart && !out.empty()) out += ' ';
    is_apart = false;
    out += is_number ? '#' : c;
  }
  return out;
}

std::vector<std::string> places_of_lines(const std::string& text) {
  std::vector<std::string> all;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) all.push_back(places_of(line));
  return all;
}

class Tutorial : public testing::Test {
 protected:
  // Standard output and standard error together.
  std::string output_of(const std::string& command) const {
    const std::string folder = scratch_.path("");
    const std::string script = "cd '" + folder + "' && PATH='" +
                               fs::path(STRETTO_BINARY).parent_path().string() +
                               "':\"$PATH\" HOME='" + folder +
                               "' COLUMNS=80 && export PATH HOME "
                               "COLUMNS && unset STRETTO_TUNING_FILE XDG_DATA_HOME\n" +
                               command + "\n";
    const std::string file = scratch_.file("command.sh", script);
    const std::string line = "sh '" + file + "' >'" + scratch_.path("said") + "' 2>&1 </dev/null";
    EXPECT_EQ(std::system(line.c_str()), 0) << command << "\n" << content_of(scratch_.path("said"));
    return content_of(scratch_.path("said"));
  }

  ScratchFolder scratch_;
};

TEST(TutorialPlaces, KeepColumnsApart) {
  EXPECT_EQ(places_of("  a  1.5 22 ▃█ 3 %"), "a # # # %");
  EXPECT_NE(places_of("a 1 2"), places_of("a 1"));
}

TEST_F(Tutorial, PrintsWhatItShows) {
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
    const Page page = parse(content_of(path.string()));
    EXPECT_FALSE(page.steps.empty());
    for (const File& file : page.files) {
      if (file.name.find('/') == std::string::npos) {
        scratch_.file(file.name, file.content);
      } else {
        EXPECT_THAT(content_of(kRoot + "/" + file.name), testing::HasSubstr(file.content));
      }
    }
    for (const Step& step : page.steps) {
      SCOPED_TRACE(step.command);
      const std::string said = output_of(step.command);
      const std::vector<std::string> lines = places_of_lines(said);
      auto at = lines.begin();
      for (const std::string& shown : step.shown) {
        at = std::find(at, lines.end(), places_of(shown));
        ASSERT_NE(at, lines.end()) << "not printed, or not there: " << shown << "\n" << said;
        ++at;
      }
    }
  }
}

}  // namespace
}  // namespace stretto
