// What the command says of GPUs that it cannot use, by a driver that has none behind it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "stub_environment.h"

namespace stretto {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::IsEmpty;

const std::string kH200 = "NVIDIA H200:132:9.0";
const std::string kH100 = "NVIDIA H100 PCIe:114:9.0";
const std::string kA100 = "NVIDIA A100:108:8.0";
// Enough for the buffers of a plan, not for what kernels beside them need.
const std::string kSomeMemory = "3000000";

class StubDriver : public StubEnvironment {
 protected:
  void SetUp() override {
    set("LD_LIBRARY_PATH", stubs_ + "/driver");
    set("STRETTO_NCCL_PATH", stubs_ + "/none");
    set("STRETTO_CACHE_PATH", folder_.path("cache"));
    set("STUB_GPUS", kH200 + ";" + kH200);
  }

  static std::vector<std::string> line(const std::vector<std::string>& verb,
                                       const std::vector<std::string>& more = {}) {
    return verb + (std::vector<std::string>{"gemm-rs", "--m", "512", "--n", "512", "--k", "512",
                                            "--ranks", "2"} +
                   more);
  }
  static std::vector<std::string> run(const std::vector<std::string>& more = {}) {
    return line({"run", "--target", "cuda"}, more);
  }
  static void expect_fault(const std::vector<std::string>& arguments, const std::string& why) {
    const Said said = stretto_says(arguments);
    EXPECT_EQ(said.exit_code, 3);
    EXPECT_THAT(said.out, IsEmpty());
    EXPECT_EQ(said.err, "stretto: " + why + "\n");
  }

  ScratchFolder folder_;
};

TEST_F(StubDriver, VerbsThatNeedGpusSayWhyThereAreNone) {
  for (const auto& arguments : {run(), line({"bench"}), line({"tune", "--file", "/none"})}) {
    set("STUB_GPUS", "");
    expect_fault(arguments, "the CUDA driver sees no GPU (no device)");
    set("STUB_GPUS", kH200);
    expect_fault(arguments,
                 "too few GPUs: 2 needed, this machine has 1; STRETTO_RANKS_A_GPU=2 lets ranks "
                 "share them");
    set("STUB_GPUS", kH200 + ";" + kH100);
    expect_fault(arguments,
                 "mixed GPUs: rank 0 has NVIDIA H200 (132 SMs, sm_90a), rank 1 has NVIDIA H100 "
                 "PCIe (114 SMs, sm_90a)");
    set("STUB_GPUS", kA100 + ";" + kA100);
    expect_fault(arguments, "plans run on Hopper GPUs (sm_90a); this one is sm_80");
  }
}

TEST_F(StubDriver, ADriverThatDoesNotComeUpSaysWhy) {
  set("STUB_FAIL", "cuInit=999");
  expect_fault(run(), "the CUDA driver sees no GPU (as the environment says)");
  set("LD_LIBRARY_PATH", stubs_ + "/old_driver");
  expect_fault(run(), "the CUDA driver is too old: cuInit is missing; 12.4 or newer is needed");
}

TEST_F(StubDriver, GpusThatCannotWorkTogetherAreNamed) {
  set("STUB_NO_PEERS", "1");
  expect_fault(run(), "no peer access: GPU 0 cannot reach GPU 1's memory");
  set("STUB_SAME_UUID", "1");
  expect_fault(run(), "ranks 0 and 1 have the same GPU; each needs its own");
}

TEST_F(StubDriver, MemoryThatDoesNotSufficeIsAFaultOfTheSystem) {
  set("STUB_MEMORY", "100000");
  expect_fault(run(),
               "region the buffers of a plan of 1048576 bytes: out of GPU memory: 1048576 bytes do "
               "not fit");
}

TEST_F(StubDriver, AnNcclThatCannotBeUsedIsNamed) {
  const auto sequential = run({"--strategy", "sequential"});
  expect_fault(sequential,
               "no NCCL on this machine (libnccl.so.2 not found; STRETTO_NCCL_PATH says where)");
  set("STRETTO_NCCL_PATH", stubs_ + "/old_nccl");
  const std::string old =
      "NCCL 2.12.12 is too old: 2.18 or newer is needed (ncclGetUniqueId is missing)";
  expect_fault(sequential, old);
  set("STRETTO_FABRIC", "windows");
  expect_fault(run(), old);
  set("STRETTO_NCCL_PATH", stubs_ + "/nccl");
  set("STUB_NCCL_VERSION", "22706");
  expect_fault(run(), "NCCL 2.27.6 is too old: windows need 2.28 or newer");
  set("STUB_NCCL_VERSION", "21705");
  expect_fault(run(), "NCCL 2.17.5 is too old: 2.18 or newer is needed");
  set("STUB_NCCL_VERSION", "2708");
  expect_fault(run(), "NCCL 2.7.8 is too old: 2.18 or newer is needed");
}

TEST_F(StubDriver, MemoryOfWindowsThatIsNotGivenSaysWhy) {
  set("STRETTO_FABRIC", "windows");
  set("STRETTO_NCCL_PATH", stubs_ + "/nccl");
  set("STUB_NCCL_SAYS", "Cuda failure 2 'out of memory'");
  const std::string region = "region the buffers of a plan of 1048576 bytes: ";
  expect_fault(run(), region + "out of GPU memory: 1048576 bytes do not fit");
  set("STUB_NCCL_SAYS", "Cuda failure 801\n'operation not supported'");
  expect_fault(run(), region +
                          "NCCL: allocate 1048576 bytes of GPU memory: unhandled error of the "
                          "stub; Cuda failure 801 'operation not supported'");
}

TEST_F(StubDriver, ExportedMemoryOutOfReachNamesTheRanks) {
  set("STRETTO_FABRIC", "exported");
  set("STUB_NO_PEERS", "1");
  expect_fault(run(),
               "region the buffers of a plan of 1048576 bytes: no peer access: rank 1's GPU cannot "
               "reach rank 0's memory: as the environment says (CUDA_ERROR_OF_THE_STUB)");
  set("STUB_MEMORY", "100000");
  expect_fault(run(),
               "region the buffers of a plan of 1048576 bytes: out of GPU memory: 1048576 bytes do "
               "not fit");
}

// Processes see one GPU each where a launcher tells them which; or there is but one.
TEST_F(StubDriver, ProcessesThatSeeTheSameOnlyGpuHearThatItIsOne) {
  set("STUB_GPUS", kH200);
  set("STUB_SAME_UUID", "1");
  const Said said =
      stretto_says(std::vector<std::string>{"launch", "-n", "2", "--", STRETTO_BINARY} + run());
  EXPECT_EQ(said.exit_code, 3);
  EXPECT_THAT(said.err,
              HasSubstr("too few GPUs: ranks 0 and 1 have the only one that this process sees; "
                        "each needs its own"));
}

TEST_F(StubDriver, MixedGpusOfProcessesAreNamed) {
  set("STUB_GPUS", kH200 + ";" + kH100);
  const Said said =
      stretto_says(std::vector<std::string>{"launch", "-n", "2", "--", STRETTO_BINARY} + run());
  EXPECT_EQ(said.exit_code, 3);
  EXPECT_THAT(said.err,
              HasSubstr("mixed GPUs: rank 0 has NVIDIA H200 (132 SMs, sm_90a), rank 1 has NVIDIA "
                        "H100 PCIe (114 SMs, sm_90a)"));
}

// What ends one strategy leaves the others their turns, and the status says that something failed.
TEST_F(StubDriver, EveryStrategySaysWhatKeptIt) {
  set("STUB_MEMORY", kSomeMemory);
  const Said said = stretto_says(run({"--strategy", "sequential,tiles,slices", "--json"}));
  EXPECT_EQ(said.exit_code, 3);
  EXPECT_THAT(said.err, IsEmpty());
  const json results = json::parse(said.out).at("results");
  ASSERT_EQ(results.size(), 3);
  EXPECT_THAT(results[0].at("fault").get<std::string>(), HasSubstr("no NCCL on this machine"));
  for (const size_t other : {1, 2}) {
    EXPECT_EQ(results[other].at("good"), false);
    EXPECT_TRUE(results[other].at("check").at("clean"));
    EXPECT_THAT(results[other].at("fault").get<std::string>(), HasSubstr("out of GPU memory: "));
  }
  const Said shown = stretto_says(run({"--strategy", "sequential,tiles"}));
  EXPECT_EQ(shown.exit_code, 3);
  EXPECT_THAT(shown.out, HasSubstr("sequential  failed: no NCCL on this machine"));
  EXPECT_THAT(shown.out, HasSubstr("tiles       failed: "));
}

// Blocks of a plan all have an SM of their own, so plans are made for the SMs that there are.
TEST_F(StubDriver, PlansAreForTheSmsOfTheGpus) {
  set("STUB_MEMORY", kSomeMemory);
  const auto planned = [&](const std::string& gpu, const std::string& machine) {
    set("STUB_GPUS", gpu + ";" + gpu);
    const Said said =
        stretto_says(run({"--strategy", "tiles,slices", "--json", "--machine", machine}));
    EXPECT_EQ(said.exit_code, 3) << said.err;
    for (const json& result : json::parse(said.out).at("results")) {
      EXPECT_THAT(result.at("fault").get<std::string>(), HasSubstr("out of GPU memory: "));
    }
    return json::parse(said.out).at("sms").get<int>();
  };
  for (const char* machine : {"h200x8", "h100x8"}) {
    EXPECT_EQ(planned(kH200, machine), 132);
    EXPECT_EQ(planned(kH100, machine), 114);
    EXPECT_EQ(planned("NVIDIA H20:78:9.0", machine), 78);
    EXPECT_EQ(planned("NVIDIA More:144:9.0", machine), 132);
  }
  set("STUB_GPUS", kH100 + ";" + kH100);
  EXPECT_THAT(stretto_says(run({"--strategy", "tiles,slices"})).out,
              HasSubstr("2 x NVIDIA H100 PCIe, plans for h200x8 with 114 SMs"));
}

// A file's plan is what it is, and says so where there are too few SMs for it.
TEST_F(StubDriver, APlanOfAFileIsNotMadeSmaller) {
  const std::string file = folder_.path("wide.plan");
  const std::vector<std::string> plan = {"plan", "gemm-rs", "--m",     "4096", "--n", "4096",
                                         "--k",  "512",     "--ranks", "2",    "-o",  file};
  ASSERT_EQ(stretto_says(plan).exit_code, 0);
  set("STUB_GPUS", kH100 + ";" + kH100);
  const Said said = stretto_says({"run", file, "--target", "cuda"});
  EXPECT_EQ(said.exit_code, 2);
  EXPECT_THAT(said.err, HasSubstr("the plan keeps 132 SMs busy, this GPU has 114"));
}

TEST_F(StubDriver, BenchTakesTheStrategyThatItComparesWithIntoTheList) {
  set("STUB_GPUS", "");
  expect_fault(line({"bench"}, {"--strategies", "auto", "--against", "sequential"}),
               "the CUDA driver sees no GPU (no device)");
  expect_fault(line({"bench"}, {"--strategies", "tiles", "--against", "slices,tile=64x64"}),
               "the CUDA driver sees no GPU (no device)");
}

}  // namespace
}  // namespace stretto
