// Variables of the environment for as long as a test runs: they tell the stubs of libraries what to
// be (tests/stub).
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <optional>
#include <string>

namespace stretto {

class StubEnvironment : public testing::Test {
 protected:
  ~StubEnvironment() override {
    for (const auto& [name, before] : before_) {
      if (before) {
        ::setenv(name.c_str(), before->c_str(), 1);
      } else {
        ::unsetenv(name.c_str());
      }
    }
  }

  void set(const std::string& name, const std::string& value) {
    const char* before = std::getenv(name.c_str());
    before_.emplace(name, before == nullptr ? std::nullopt : std::optional<std::string>(before));
    ::setenv(name.c_str(), value.c_str(), 1);
  }

  const std::string stubs_ = STRETTO_STUBS;

 private:
  std::map<std::string, std::optional<std::string>> before_;
};

}  // namespace stretto
