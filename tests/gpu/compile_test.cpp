// Every kernel compiles without a GPU, and keeps its registers.
#include <gtest/gtest.h>

#include "compiler_fixture.h"
#include "core/embedded_text.h"
#include "gpu/compiler.h"
#include "gpu/gemm_kernel.h"
#include "gpu/sync_kernels.h"
#include "stretto/error.h"

namespace stretto::cuda {
namespace {

using device::GemmConfig;
using device::OutputType;
using device::Shared;

class CompileTest : public NeedsCompiler {
 protected:
  const Compiler compiler_{JitCache("")};
};

TEST_F(CompileTest, EveryDeviceHeaderCompilesAlone) {
  for (const EmbeddedText& header : device_sources()) {
    const std::string source = "#include \"" + std::string(header.name) + "\"\n";
    EXPECT_FALSE(compiler_.compile(source, "sm_90a").cubin.empty()) << header.name;
  }
}

// Tiles that are stored before the next begins, which no plan asks for; the others are in
// every_kernel_test.cpp.
TEST_F(CompileTest, GemmKernelsThatStoreAtOnceDoNotSpill) {
  const GemmConfig configs[] = {{128, 256, 4, 2, Shared::none, true, OutputType::bf16, false},
                                {128, 256, 4, 2, Shared::none, true, OutputType::fp32, false},
                                {128, 160, 5, 2, Shared::a, false, OutputType::fp16, false}};
  for (const GemmConfig& config : configs) {
    expect_no_spills_in_time(describe(config), gemm_source(config), "sm_90a");
  }
}

TEST_F(CompileTest, MoversDoNotSpill) {
  for (const bool norms : {false, true}) {
    expect_no_spills_in_time(norms ? "mover with norms" : "mover", mover_source(norms), "sm_90a");
  }
}

TEST_F(CompileTest, PassesDoNotSpill) {
  for (const bool routes : {false, true}) {
    expect_no_spills_in_time(routes ? "pass of routed rows" : "pass", pass_source(routes),
                             "sm_90a");
  }
}

// Once a task. Beside norms, of a layer with experts in one graph, more.
TEST_F(CompileTest, MoversOfRoutedRowsSpillLittle) {
  for (const bool norms : {false, true}) {
    const CompiledKernel kernel = compiler_.compile(mover_source(norms, true), "sm_90a");
    EXPECT_GT(most_registers(kernel.log), 0);
    EXPECT_LE(spilled_bytes(kernel.log), norms ? 320 : 64) << kernel.log;
  }
}

// Releases of one version differ in their machine code; cached kernels go by the build.
TEST_F(CompileTest, TheCompilerSaysWhichBuildItIs) {
  EXPECT_EQ(compiler_build().find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_GE(compiler_build().size(), 16u);
}

TEST_F(CompileTest, TheReportOfSpillsIsRead) {
  EXPECT_EQ(spilled_bytes("32 bytes stack frame, 56 bytes spill stores, 76 bytes spill loads"),
            132);
}

TEST(GemmConfigTest, IllegalConfigurationsSayWhatWouldBeRight) {
  GemmConfig config;
  config.tile_n = 100;
  EXPECT_NE(why_illegal(config).find("64, 96, 128"), std::string::npos);
  config = {};
  config.stages = 5;
  EXPECT_NE(why_illegal(config).find("shared memory"), std::string::npos);
  EXPECT_THROW(gemm_source(config), UsageError);
  EXPECT_EQ(why_illegal(GemmConfig{}), "");
  config = {};
  config.splits = true;
  EXPECT_NE(why_illegal(config).find("has no clusters"), std::string::npos);
  config.shared = Shared::none;
  EXPECT_EQ(why_illegal(config), "");
  config.adds = 3;
  EXPECT_NE(why_illegal(config).find("tiles of up to 128x224"), std::string::npos);
  config = {};
  config.phases = config.moves = true;
  EXPECT_EQ(why_illegal(config), "");
  config.shared = Shared::none;
  EXPECT_EQ(why_illegal(config), "");
  config.tile_n = 224;
  EXPECT_EQ(why_illegal(config), "");
  config.serves = true;
  EXPECT_NE(why_illegal(config).find("64, 128, 192 or 256 columns"), std::string::npos);
}

TEST(GemmConfigTest, FollowersSayWhatWouldBeRight) {
  GemmConfig config;
  config.follower = device::Follower::swiglu;
  config.bias = true;
  EXPECT_EQ(why_illegal(config), "");
  EXPECT_NE(describe(config).find(" bias swiglu"), std::string::npos);
  EXPECT_NE(gemm_source(config).find("Follower::swiglu, .bias = true"), std::string::npos);
  config.shared = Shared::none;
  config.adds = 3;
  EXPECT_NE(why_illegal(config).find("cannot add other ranks' sums"), std::string::npos);
  config.adds = 0;
  config.tile_n = 224;
  EXPECT_EQ(why_illegal(config), "");
  config.grouped = true;
  EXPECT_NE(why_illegal(config).find("64, 128, 192 or 256"), std::string::npos);
  config.grouped = false;
  config.tile_n = 192;
  EXPECT_EQ(why_illegal(config), "");
  config.serves = true;
  EXPECT_NE(why_illegal(config).find("128 or 256 columns"), std::string::npos);
  config.follower = device::Follower::gelu;
  EXPECT_EQ(why_illegal(config), "");
}

// A swiglu tile has two products' columns, of which it stores half.
TEST(GemmConfigTest, TwoProductsShareATile) {
  for (const int columns : {64, 96, 128, 160, 192, 224, 256}) {
    for (const device::OutputType output : {device::OutputType::bf16, device::OutputType::fp32}) {
      GemmConfig config;
      config.follower = device::Follower::swiglu;
      config.tile_n = columns;
      config.output = output;
      SCOPED_TRACE(describe(config));
      EXPECT_EQ(why_illegal(config), "");
      const device::GemmLayout layout = device::layout_of(config);
      EXPECT_EQ(layout.halves, 2);
      EXPECT_EQ(layout.stored_columns, columns / 2);
      EXPECT_EQ(layout.b_box_rows, columns / 2);
      EXPECT_EQ(layout.chunks * layout.chunk_columns, columns / 2);
      // The barriers of stages and chunks have what is left.
      const int barriers = 2 * (config.stages + config.consumers * layout.chunk_slots);
      EXPECT_LE(8 * barriers + 24, 512);
    }
  }
}

}  // namespace
}  // namespace stretto::cuda
