// What is said of a plan file that ends badly on GPUs names the file's lines, as what the emulator
// says does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/command.h"
#include "stub_environment.h"

namespace stretto {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

class GpuLines : public StubEnvironment {
 protected:
  void SetUp() override {
    set("LD_LIBRARY_PATH", stubs_ + "/driver:" + stubs_ + "/nvrtc");
    set("STRETTO_CACHE_PATH", folder_.path("cache"));
    set("STUB_GPUS", "NVIDIA H200:132:9.0");
    set("STUB_EXPIRES", "1");
  }

  static std::string fault_of(std::vector<std::string> arguments) {
    for (const char* more : {"--target", "cuda", "--json"}) arguments.push_back(more);
    const Said said = stretto_says(arguments);
    EXPECT_EQ(said.exit_code, 1) << said.err;
    const json all = json::parse(said.out, nullptr, false);
    if (all.is_discarded()) return said.out;
    return all.at("results").at(0).at("cuda").at("seeds").at(0).at("fault");
  }

  ScratchFolder folder_;
};

TEST_F(GpuLines, OfAWaitThatEndsByItsDeadline) {
  const std::string file = folder_.file("p.txt", R"(stretto-plan 2
operator ag-gemm m=64 n=64 k=64 ranks=1 dtype=bf16
sms 132
buffer a bf16 64x64 input
buffer b bf16 64x64 input
buffer whole bf16 64x64 local
buffer out bf16 64x64 output
signals full 2

lane 0 compute 0      ; behind what a copy engine brings
  wait full.1 >= 1
  gemm #7 whole[0:64,0:64] b[0:64,0:64] -> out[0:64,0:64]
lane 0 copy 0
  copy a[0:64,0:64] -> whole[0:64,0:64]
  notify full.1@0 += 1
end
)");
  const std::string fault =
      file + ":11: rank 0 compute 0 waited 2000 ms before tile 7 for full.1: expected 1, seen 0";
  const Said said = stretto_says({"run", file, "--target", "cuda"});
  EXPECT_EQ(said.exit_code, 1) << said.err;
  std::istringstream in(said.out);
  std::string words, word;
  while (in >> word) words += word + ' ';
  EXPECT_THAT(words, HasSubstr("under seed 1: " + fault));
  EXPECT_EQ(fault_of({"run", file}), fault);
}

// No file, no line.
TEST_F(GpuLines, NoneOfTheWaitsOfAnOperatorsPlan) {
  set("STUB_GPUS", "NVIDIA H200:132:9.0;NVIDIA H200:132:9.0");
  EXPECT_THAT(fault_of({"run", "ag-gemm", "--m", "128", "--n", "128", "--k", "64", "--ranks", "2",
                        "--schedule", "tiles,mover=copy-engine,comm-sms=0"}),
              StartsWith("rank 0 compute "));
}

}  // namespace
}  // namespace stretto
