// Tests that need the CUDA run-time compiler, but no GPU: they skip, saying why, where there is
// none, or fail where STRETTO_NEED_COMPILER says that there should be one.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

#include "cuda/nvrtc_api.h"

namespace stretto::cuda {

class NeedsCompiler : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string& why = why_no_compiler();
    if (why.empty()) return;
    if (std::getenv("STRETTO_NEED_COMPILER") != nullptr) FAIL() << why;
    std::cout << "[SKIP] " << why << "\n";
    GTEST_SKIP() << why;
  }
};

}  // namespace stretto::cuda
