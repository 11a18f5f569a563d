// Tests that need the CUDA run-time compiler, but no GPU: they skip, saying why, where there is
// none, or fail where STRETTO_NEED_COMPILER says that there should be one.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>
#include <iostream>
#include <string>

#include "gpu/compiler.h"
#include "gpu/nvrtc_api.h"

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

  // Without a cache: no spills, and quick, since a plan's first run waits for it.
  static void expect_no_spills_in_time(const std::string& name, const std::string& source,
                                       const std::string& arch) {
    constexpr double kMostSeconds = 5;
    const Compiler compiler{JitCache("")};
    const double start = cpu_seconds();
    const CompiledKernel kernel = compiler.compile(source, arch);
    const double seconds = cpu_seconds() - start;
    EXPECT_GT(most_registers(kernel.log), 0) << name << ": no resource report";
    EXPECT_EQ(spilled_bytes(kernel.log), 0) << name << "\n" << kernel.log;
    EXPECT_LT(seconds, kMostSeconds) << name;
  }

 private:
  // Of this thread, in which kernels are compiled: what else the machine does takes no part in it.
  static double cpu_seconds() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
  }
};

}  // namespace stretto::cuda
