// Tests that need the CUDA run-time compiler, but no GPU: they skip, saying why, where there is
// none, or fail where STRETTO_NEED_COMPILER says that there should be one.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <string>
#include <utility>

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
    // Tiles in phases with movers beside them take 5.2, the longest.
    constexpr double kMostSeconds = 6;
    const TimedKernel timed = compile_timed(source, arch);
    EXPECT_GT(most_registers(timed.log), 0) << name << ": no resource report";
    EXPECT_EQ(spilled_bytes(timed.log), 0) << name << "\n" << timed.log;
    if (timed.seconds < kMostSeconds) return;
    const double slowness = std::max(1.0, yardstick_seconds(arch) / kYardstickSeconds);
    EXPECT_LT(timed.seconds / slowness, kMostSeconds)
        << name << ": " << timed.seconds << " s while the machine is " << slowness
        << " times as slow as when it is idle";
  }

 private:
  struct TimedKernel {
    double seconds;
    std::string log;
  };

  static TimedKernel compile_timed(const std::string& source, const std::string& arch) {
    const Compiler compiler{JitCache("")};
    const double start = cpu_seconds();
    CompiledKernel kernel = compiler.compile(source, arch);
    return {cpu_seconds() - start, std::move(kernel.log)};
  }

  // What a kernel that never changes takes now. A thread's seconds are longer beside others that
  // share its core and its caches, of this kernel as of any other.
  static double yardstick_seconds(const std::string& arch) {
    std::string source = "extern \"C\" __global__ void yardstick(float* x) {\n";
    for (int i = 0; i < kYardstickLines; ++i) {
      source += "  if (x[" + std::to_string(i) + "] > 0) x[threadIdx.x + " + std::to_string(i) +
                "] += __sinf(x[threadIdx.x * 3 + " + std::to_string(i * 7) + "]);\n";
    }
    return compile_timed(source + "}\n", arch).seconds;
  }
  static constexpr int kYardstickLines = 400;
  // The fastest of ten on two idle cores, where they took up to 2.1 (clocks of shared hosts vary).
  static constexpr double kYardstickSeconds = 1.3;

  // Of this thread, in which kernels are compiled: others' time is not in it.
  static double cpu_seconds() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
  }
};

}  // namespace stretto::cuda
