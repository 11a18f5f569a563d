// Tests whose settings a process reads once: the binary starts itself with them.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

#include "fabric/launcher.h"

namespace stretto {

inline constexpr const char* kInsideLearning = "STRETTO_TEST_INSIDE_LEARNING";
inline bool is_outside() { return std::getenv(kInsideLearning) == nullptr; }

// The binary with one of its tests, for a shell. Throws where it has none of the name, since that
// would end well.
inline std::string command_inside(const std::string& settings, const std::string& test) {
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int s = 0; s < all.total_test_suite_count(); ++s) {
    const testing::TestSuite& suite = *all.GetTestSuite(s);
    for (int t = 0; t < suite.total_test_count(); ++t) {
      if (std::string(suite.name()) + "." + suite.GetTestInfo(t)->name() != test) continue;
      return fmt::format("{}=1 {} /proc/{}/exe --gtest_filter={}", kInsideLearning, settings,
                         getpid(), test);
    }
  }
  throw std::logic_error("this binary has no test " + test);
}
// How it ended: 0 is good.
inline int run_inside(const std::string& settings, const std::string& test) {
  return std::system(command_inside(settings, test).c_str());
}
// On two ranks, one process each, with settings of their own.
inline int run_inside_two(const std::string& settings, const std::string& of_rank_0,
                          const std::string& of_rank_1, const std::string& test) {
  const std::string choice = fmt::format("if [ $STRETTO_RANK = 0 ]; then {}; else {}; fi",
                                         command_inside(settings + " " + of_rank_0, test),
                                         command_inside(settings + " " + of_rank_1, test));
  return fabric::launch(2, {"/bin/sh", "-c", choice});
}

// A file for one test, gone behind it.
class LearntFileOfATest {
 public:
  explicit LearntFileOfATest(const std::string& name = "learnt")
      : path_(std::filesystem::temp_directory_path() / fmt::format("{}-{}.json", name, getpid())) {}
  ~LearntFileOfATest() {
    std::filesystem::remove(path_);
    std::filesystem::remove(path_.string() + ".lock");
  }
  LearntFileOfATest(const LearntFileOfATest&) = delete;
  LearntFileOfATest& operator=(const LearntFileOfATest&) = delete;

  bool exists() const { return std::filesystem::exists(path_); }
  std::string setting() const { return fmt::format("STRETTO_TUNING_CACHE='{}' ", path_.string()); }

 private:
  const std::filesystem::path path_;
};

}  // namespace stretto
