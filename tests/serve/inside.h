// Tests whose settings a process reads once: the binary starts itself with them.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace stretto {

inline constexpr const char* kInsideLearning = "STRETTO_TEST_INSIDE_LEARNING";
inline bool is_outside() { return std::getenv(kInsideLearning) == nullptr; }

// How the tests that the filter names ended: 0 is good.
inline int run_inside(const std::string& settings, const char* filter) {
  return std::system(fmt::format("{}=1 {} /proc/{}/exe --gtest_filter={}", kInsideLearning,
                                 settings, getpid(), filter)
                         .c_str());
}

// A file for one test, gone behind it.
class LearntFileOfATest {
 public:
  LearntFileOfATest()
      : path_(std::filesystem::temp_directory_path() / fmt::format("learnt-{}.json", getpid())) {}
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
