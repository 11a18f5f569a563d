// What `compile` does with a compiler that is quick, spills or is too old, and with its cache.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/command.h"
#include "stub_environment.h"

namespace stretto {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

class StubCompiler : public StubEnvironment {
 protected:
  void SetUp() override {
    set("LD_LIBRARY_PATH", stubs_ + "/nvrtc");
    set("STRETTO_CACHE_PATH", folder_.path("cache"));
  }

  static std::vector<std::string> compile(const std::vector<std::string>& more = {}) {
    const std::vector<std::string> line = {"compile", "gemm-rs", "--m", "512",     "--n",
                                           "512",     "--k",     "512", "--ranks", "2"};
    return line + more;
  }
  static json kernels(const std::vector<std::string>& more = {}, int exit_code = 0) {
    const Said said = stretto_says(compile(more + std::vector<std::string>{"--json"}));
    EXPECT_EQ(said.exit_code, exit_code) << said.err;
    const json all = json::parse(said.out);
    EXPECT_EQ(all.at("good"), exit_code == 0);
    return all.at("kernels");
  }
  // How many came from the cache; of all that the architecture has.
  static std::pair<int, int> from_the_cache(const std::vector<std::string>& more = {}) {
    int cached = 0, all = 0;
    for (const json& kernel : kernels(more)) {
      if (!kernel.contains("cached")) continue;
      cached += kernel.at("cached").get<bool>();
      ++all;
    }
    return {cached, all};
  }

  ScratchFolder folder_;
};

TEST_F(StubCompiler, AKernelThatSpillsIsNamedFromTheCacheToo) {
  set("STUB_NVRTC_SPILLS", "stretto_mover");
  for (int time = 0; time < 2; ++time) {
    int spilling = 0;
    for (const json& kernel : kernels({}, 1)) {
      const bool is_mover = kernel.at("name") == "mover";
      EXPECT_EQ(kernel.at("spilled_bytes"), is_mover ? 20 : 0) << kernel;
      EXPECT_EQ(kernel.at("registers"), 40);
      EXPECT_EQ(kernel.at("cached"), time == 1);
      spilling += is_mover;
    }
    EXPECT_EQ(spilling, 1);
  }
}

TEST_F(StubCompiler, KernelsAreKeptByCompilerAndArchitecture) {
  const auto [first, all] = from_the_cache();
  EXPECT_EQ(first, 0);
  EXPECT_GT(all, 3);
  EXPECT_EQ(from_the_cache(), std::pair(all, all));
  for (const char* arch : {"sm_89", "sm_80"}) {
    const auto [anew, some] = from_the_cache({"--arch", arch});
    EXPECT_EQ(anew, 0);
    EXPECT_EQ(from_the_cache({"--arch", arch}), std::pair(some, some));
  }
  set("STUB_NVRTC_VERSION", "12.9");
  EXPECT_EQ(from_the_cache(), std::pair(0, all));
}

// From 12.9 on compilers have a cache of their own, which keeps machine code without its report.
TEST_F(StubCompiler, ReportsOfAllVersionsAreThere) {
  for (const char* version : {"12.8", "12.9", "13.0"}) {
    set("STUB_NVRTC_VERSION", version);
    for (const json& kernel : kernels()) EXPECT_EQ(kernel.at("registers"), 40) << version;
  }
}

TEST_F(StubCompiler, ProcessesFillOneCacheAtTheSameTime) {
  const Said said =
      stretto_says(std::vector<std::string>{"launch", "-n", "8", "--", STRETTO_BINARY} + compile());
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_THAT(said.err, IsEmpty());
  const auto [cached, all] = from_the_cache();
  EXPECT_EQ(cached, all);
}

// A limit on the size of files stands for the full disk.
TEST_F(StubCompiler, ADiskThatIsFullIsAFaultOfTheSystem) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit full{1 << 16, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &full), 0);
  const Said said = stretto_says(compile());
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(said.exit_code, 3);
  EXPECT_THAT(said.err, HasSubstr("cannot keep "));
  EXPECT_THAT(said.err, HasSubstr("is the disk full?"));
  EXPECT_EQ(from_the_cache().first, 0);
}

// Nothing of it is kept.
TEST_F(StubCompiler, MachineCodeThatCannotBeReadIsAFaultOfTheSystem) {
  set("STUB_NVRTC_FAILS", "1");
  const Said said = stretto_says(compile());
  EXPECT_EQ(said.exit_code, 3);
  EXPECT_EQ(said.err,
            "stretto: the CUDA run-time compiler could not give machine code (status 4)\n");
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path("cache")));
}

// Of a graph's own kernel its author is told, in one line, whatever the compiler calls it; where it
// says nothing it is not the kernel that is wrong.
TEST_F(StubCompiler, WhyAKernelOfAGraphDoesNotCompileIsSaid) {
  folder_.file("keep.h", "");
  const std::vector<std::string> line = {
      "compile",
      folder_.file("own.graph",
                   "graph own m n k\nkernel keep all-reduce \"keep.h\"\ninput x [m, k] cols\n"
                   "input w [n, k] cols\ny = gemm x w\noutput y whole\n"),
      "m=32",
      "n=32",
      "k=64",
      "--ranks",
      "2",
      "--strategy",
      "sequential,kernel=keep"};
  set("STUB_NVRTC_REFUSES", "keep.h");
  const Said none = stretto_says(line);
  EXPECT_EQ(none.exit_code, 3);
  EXPECT_EQ(none.err,
            "stretto: the CUDA run-time compiler could not compile a kernel (status 11)\n");
  for (const auto& [said, told] :
       {std::pair{"\nptxas fatal   : Unresolved extern function 'f'\n",
                  "does not compile for sm_90a: ptxas fatal   : Unresolved extern function 'f'\n"},
        std::pair{"keep.h(3): error: no f\n\nkeep.h(4): error: no g\n",
                  "does not compile for sm_90a: keep.h(3): error: no f (and 1 more)\n"}}) {
    set("STUB_NVRTC_SAYS", said);
    const Said own = stretto_says(line);
    EXPECT_EQ(own.exit_code, 2);
    EXPECT_THAT(own.err, AllOf(HasSubstr("keep<Bf16x8, GpuBlock>"), HasSubstr(told)));
  }
  set("STRETTO_CACHE_PATH", folder_.path("empty"));
  set("STUB_NVRTC_REFUSES", "stretto_mover");
  EXPECT_THAT(stretto_says(compile()).err, HasSubstr("internal error: a kernel does not compile"));
}

TEST_F(StubCompiler, ACompilerThatIsTooOldIsNamed) {
  set("LD_LIBRARY_PATH", stubs_ + "/old_nvrtc");
  const Said said = stretto_says(compile());
  EXPECT_EQ(said.exit_code, 3);
  EXPECT_EQ(said.err, "stretto: libnvrtc.so.13 lacks nvrtcVersion: CUDA 12 or newer is needed\n");
}

}  // namespace
}  // namespace stretto
