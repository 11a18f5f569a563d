// All kernels that are made ahead of time, for every architecture: no spills, and quick to compile,
// since a plan's first run waits for it.
#include "cuda/kernel_set.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <ctime>
#include <ostream>

#include "compiler_fixture.h"
#include "cuda/compiler.h"

namespace stretto::cuda {
namespace {

// Of this thread, in which kernels are compiled: what else the machine does takes no part in it.
double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Parts that tests of several processes share.
constexpr size_t kParts = 8;
struct Part {
  std::string arch;
  size_t part;
};
void PrintTo(const Part& part, std::ostream* out) { *out << part.arch << " " << part.part; }

class KernelSet : public NeedsCompiler, public testing::WithParamInterface<Part> {};

TEST_P(KernelSet, DoNotSpillAndCompileInTime) {
  constexpr double kMostSeconds = 5;
  const Compiler compiler{JitCache("")};
  const std::vector<KernelEntry> set = kernel_set(GetParam().arch);
  size_t compiled = 0;
  for (size_t i = GetParam().part; i < set.size(); i += kParts) {
    if (!set[i].missing.empty()) continue;
    const double start = cpu_seconds();
    const CompiledKernel kernel = compiler.compile(set[i].source, GetParam().arch);
    const double seconds = cpu_seconds() - start;
    ++compiled;
    EXPECT_GT(most_registers(kernel.log), 0) << "no resource report";
    EXPECT_EQ(spilled_bytes(kernel.log), 0) << set[i].name << "\n" << kernel.log;
    EXPECT_LT(seconds, kMostSeconds) << set[i].name;
  }
  EXPECT_GT(compiled, 0u);
}

std::vector<Part> parts() {
  std::vector<Part> all;
  for (const std::string& arch : known_archs()) {
    for (size_t part = 0; part < kParts; ++part) all.push_back({arch, part});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(GpuCompile, KernelSet, testing::ValuesIn(parts()), [](const auto& part) {
  return fmt::format("{}_{}", part.param.arch, part.param.part);
});

}  // namespace
}  // namespace stretto::cuda
