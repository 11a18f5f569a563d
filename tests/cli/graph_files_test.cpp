// Graph files in the place of an operator's name, in every verb that takes one. What needs GPUs
// goes as far as a driver without any.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <set>

#include "cli/command.h"
#include "stub_environment.h"

namespace stretto {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using Words = std::vector<std::string>;

class GraphFiles : public StubEnvironment {
 protected:
  void SetUp() override {
    set("LD_LIBRARY_PATH", stubs_ + "/driver");
    set("STUB_GPUS", "");
    set("STRETTO_CACHE_PATH", folder_.path("cache"));
  }

  Words line(const char* verb, const Words& more = {}) const {
    return Words{verb, file_, "m=64", "n=96", "k=32", "--ranks", "2"} + more;
  }

  ScratchFolder folder_;
  const std::string file_ = folder_.file("own.graph",
                                         "graph own m n k\ninput x [m, k] rows\n"
                                         "input w [n, k] rows\ninput b [1, n] cols\n"
                                         "y = gemm x w\nz = bias y b\noutput z cols\n");
};

TEST_F(GraphFiles, ArePlannedProvedSimulatedAndRun) {
  for (const char* verb : {"plan", "check", "simulate", "run"}) {
    const Said said = stretto_says(line(verb, {"--json"}));
    EXPECT_EQ(said.exit_code, 0) << verb << ": " << said.err;
    EXPECT_THAT(said.out, HasSubstr("\"kind\": \"own\"")) << verb;
  }
}

TEST_F(GraphFiles, HaveReports) {
  const std::string page = folder_.path("own.html");
  const Said said = stretto_says(line("report", {"--strategy", "tiles,slices", "-o", page}));
  ASSERT_EQ(said.exit_code, 0) << said.err;
  EXPECT_THAT(content_of(page), HasSubstr("own m=64 n=96 k=32 ranks=2"));
  const Said json = stretto_says(line("report", {"--json"}));
  EXPECT_EQ(json.exit_code, 0) << json.err;
  EXPECT_THAT(json.out, HasSubstr("\"kind\": \"own\""));
}

TEST_F(GraphFiles, AreTimedAndTunedUpToTheGpus) {
  const std::string tuning = folder_.path("tuning.json");
  for (const Words& arguments : {line("bench"), line("bench", {"--strategies", "tiles;slices"}),
                                 line("tune", {"--file", tuning})}) {
    const Said said = stretto_says(arguments);
    EXPECT_EQ(said.exit_code, 3) << arguments[0];
    EXPECT_THAT(said.out, IsEmpty());
    EXPECT_EQ(said.err, "stretto: the CUDA driver sees no GPU (no device)\n");
  }
}

TEST_F(GraphFiles, HaveTheirKernelsNamedAndTheirFaultsToo) {
  const Said kernels = stretto_says(line("compile", {"--arch", "sm_80"}));
  if (kernels.exit_code == 3) {
    EXPECT_THAT(kernels.err, HasSubstr("compiler"));
  } else {
    EXPECT_EQ(kernels.exit_code, 0) << kernels.err;
  }
  const std::string bad = folder_.file("bad.graph", "graph bad m\ninput x [m, 8] rows\n");
  for (const char* verb : {"report", "bench", "tune", "compile"}) {
    const Said said = stretto_says({verb, bad, "m=8", "--ranks", "2", "-o", folder_.path("out")});
    EXPECT_EQ(said.exit_code, 2) << verb;
    EXPECT_THAT(said.err, HasSubstr("bad.graph:")) << verb;
    EXPECT_EQ(std::count(said.err.begin(), said.err.end(), '\n'), 1) << said.err;
  }
}

std::set<std::string> found_in(const std::string& text, const char* pattern) {
  const std::regex wanted(pattern);
  std::set<std::string> found;
  for (std::sregex_iterator it(text.begin(), text.end(), wanted), end; it != end; ++it) {
    found.insert((*it)[1]);
  }
  return found;
}

TEST_F(GraphFiles, TheirPageNamesTheVerbsThatTakeThem) {
  std::set<std::string> takes;
  for (const std::string& verb : found_in(stretto_says({"--help"}).out, "\n  ([a-z]+) ")) {
    const Said help = stretto_says({verb, "--help"});
    ASSERT_EQ(help.exit_code, 0) << verb;
    if (std::regex_search(help.out, std::regex("a\\s+graph\\s+file"))) takes.insert(verb);
  }
  EXPECT_EQ(takes.size(), 8u);
  const std::string page = content_of(STRETTO_TEST_DIR "/../../docs/graph-format.md");
  const std::string before = "in every verb that takes\none: ";
  const size_t begin = page.find(before);
  ASSERT_NE(begin, std::string::npos);
  EXPECT_EQ(found_in(page.substr(begin, page.find('.', begin) - begin), "`([a-z]+)`"), takes);
}

TEST_F(GraphFiles, StandInNoListOfShapes) {
  const std::string shapes = folder_.file("shapes", file_ + " m=64 n=96 k=32\n");
  for (const char* verb : {"bench", "tune", "compile"}) {
    const Said said = stretto_says({verb, "--shapes", shapes, "--ranks", "2"});
    EXPECT_EQ(said.exit_code, 2) << verb;
    EXPECT_THAT(said.err, HasSubstr("line 1: unknown operator")) << verb;
  }
}

}  // namespace
}  // namespace stretto
