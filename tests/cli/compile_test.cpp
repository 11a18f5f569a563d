// Which kernels `compile` builds. For sm_80, which has none of the large ones but names them, so
// that little is compiled.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "cli/command.h"

namespace stretto {
namespace {

using Json = nlohmann::json;
using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class CompileVerb : public testing::Test {
 protected:
  void SetUp() override {
    const Said said = compile({});
    const bool no_compiler = said.exit_code == 3 && said.err.find("compiler") != std::string::npos;
    if (!no_compiler) return;
    if (std::getenv("STRETTO_NEED_COMPILER") != nullptr) FAIL() << said.err;
    GTEST_SKIP() << said.err;
  }

  static Said compile(const std::vector<std::string>& more) {
    const std::vector<std::string> line = {"compile", "gemm-ar", "--m",    "300",
                                           "--n",     "8192",    "--k",    "4096",
                                           "--ranks", "4",       "--arch", "sm_80"};
    return stretto_says(line + more);
  }
  static Json json_of(const std::vector<std::string>& more) {
    const Said said = compile(more + std::vector<std::string>{"--json"});
    EXPECT_EQ(said.exit_code, 0) << said.err;
    return Json::parse(said.out);
  }
  static std::vector<std::string> gemms_of(const Json& json) {
    std::vector<std::string> names;
    for (const Json& kernel : json.at("kernels")) {
      const std::string name = kernel.at("name");
      if (name.starts_with("gemm ")) names.push_back(name);
    }
    return names;
  }
};

TEST_F(CompileVerb, AFleetsKernelsAreThoseOfEveryBucketAndBothKindsOfRows) {
  const Json fixed = json_of({}), served = json_of({"--serve"});
  EXPECT_THAT(gemms_of(fixed), Each(Not(HasSubstr(" serves"))));
  // Rows that the host says are multiplied by cuBLAS here, rows in GPU memory by tiles in the
  // bucket of more than 256.
  EXPECT_THAT(gemms_of(served), AllOf(Not(IsEmpty()), Each(HasSubstr(" serves"))));
  std::vector<std::string> names;
  for (const Json& kernel : served.at("kernels")) names.push_back(kernel.at("name"));
  EXPECT_THAT(names, Contains(HasSubstr("collective all_reduce")));
  EXPECT_THAT(served.at("refused"), IsEmpty());
}

TEST_F(CompileVerb, NamedSchedulesServeWhereAFleetIsMeant) {
  const Json json = json_of({"--serve", "--strategies", "tiles;library;tiles,tile=128x128"});
  EXPECT_THAT(gemms_of(json), AllOf(Contains(HasSubstr("128x128x64")), Each(HasSubstr(" serves"))));
  // NCCL moves the rows of a plan; the reason is told once and not for each bucket.
  ASSERT_EQ(json.at("refused").size(), 1u) << json.at("refused");
  EXPECT_EQ(json.at("refused").at(0).at("strategy"), "library");
}

TEST_F(CompileVerb, TilesThatNoKernelHasAreLeftOut) {
  const std::string large = "tiles,tile=256x256";
  const Json json = json_of({"--strategies", "tiles;" + large});
  EXPECT_EQ(gemms_of(json).size(), 1u);
  ASSERT_EQ(json.at("refused").size(), 1u);
  EXPECT_EQ(json.at("refused").at(0).at("strategy"), large);
  EXPECT_EQ(json.at("refused").at(0).at("refused").at(0),
            "no kernel has tiles of 256x256: take tile=128x256, tile=256x128 or less");
}

TEST_F(CompileVerb, ASweepStandsAlone) {
  for (const char* list : {"sweep,tiles", "tiles,tile=64x64;sweep"}) {
    const Said said = compile({"--strategies", list});
    EXPECT_EQ(said.exit_code, 2);
    EXPECT_THAT(said.err, HasSubstr("sweep stands alone"));
  }
}

TEST_F(CompileVerb, WhatCannotServeIsTold) {
  const std::string narrow = "tiles,tile=64x256,split-k=2";
  const Json json = json_of({"--strategies", "tiles;" + narrow});
  EXPECT_EQ(gemms_of(json).size(), 1u);
  ASSERT_EQ(json.at("refused").size(), 1u);
  const Json& refused = json.at("refused").at(0);
  EXPECT_EQ(refused.at("strategy"), narrow);
  EXPECT_EQ(refused.at("operator").at("m"), 300);
  EXPECT_THAT(refused.at("refused").at(0).get<std::string>(), HasSubstr("up to 128x224"));

  const Said some = compile({"--strategies", "tiles;" + narrow});
  EXPECT_EQ(some.exit_code, 0) << some.err;
  EXPECT_THAT(some.out, HasSubstr(narrow + " cannot serve gemm-ar m=300"));
  const Said none = compile({"--strategies", narrow});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.out, IsEmpty());
  EXPECT_THAT(none.err, HasSubstr(narrow + " cannot serve gemm-ar m=300"));
}

// Headers of the graph's own kernels lie beside its file, or where --kernels says.
TEST_F(CompileVerb, KernelsOfGraphsAreTakenFromTheirFolderAndNamedWhereTheyAreWrong) {
  const ScratchFolder folder, apart;
  const std::string graph = folder.file("own.graph",
                                        "graph own m n k\n"
                                        "kernel keep all-reduce \"keep.h\"\n"
                                        "input x [m, k] cols\n"
                                        "input w [n, k] cols\n"
                                        "y = gemm x w\n"
                                        "output y whole\n");
  const auto said = [&](const std::vector<std::string>& more) {
    return stretto_says(std::vector<std::string>{"compile", graph, "m=32", "n=32", "k=64",
                                                 "--ranks", "2", "--arch", "sm_80", "--strategy",
                                                 "sequential,kernel=keep"} +
                        more);
  };
  EXPECT_THAT(said({}).out, HasSubstr("the text of its header 'keep.h'"));
  apart.file("args.h", "using Words = stretto::device::uint64;\n");
  const std::string head =
      "#include \"args.h\"\n"
      "template <class Format, class Block>\n"
      "STRETTO_KERNEL void keep(Block& block, const EdgeArgs<Block>& args) {\n";
  apart.file("keep.h",
             "using namespace stretto::device;\n" + head + "  Words i = args.first(0);\n}\n");
  const Said good = said({"--kernels", apart.path("")});
  EXPECT_EQ(good.exit_code, 0) << good.err;
  EXPECT_THAT(good.out, HasSubstr("collective keep<Bf16x8, GpuBlock> of 256 threads "));
  apart.file("keep.h",
             "using namespace stretto::device;\n" + head + "  Word i = args.first(0);\n}\n");
  const Said bad = said({"--kernels", apart.path("")});
  EXPECT_EQ(bad.exit_code, 2);
  EXPECT_THAT(bad.err, HasSubstr("does not compile for sm_80: keep.h(5): error: "));
  apart.file("keep.h",
             "using namespace stretto::device;\n#ifdef NEVER\n#include \"args.h\"\n#endif\n" +
                 head + "  Word i;\n}\n");
  EXPECT_THAT(said({"--kernels", apart.path("")}).err, HasSubstr("sm_80: keep.h(8): error: "));
  apart.file("keep.h",
             "using namespace stretto::device;\n#include \"args.h\" /* of\n it */\n#if 1\n#include "
             "\"args.h\"\n#endif\n" +
                 head + "  Words i = 0, j = Word();\n}\n");
  EXPECT_THAT(said({"--kernels", apart.path("")}).err, HasSubstr("sm_80: keep.h(10): error: "));
  apart.file("keep.h", "#include \"none.h\"\n" + head + "}\n");
  EXPECT_THAT(said({"--kernels", apart.path("")}).err,
              AllOf(HasSubstr("keep.h(1): "), HasSubstr("cannot open source file"),
                    HasSubstr("a header of your own lies beside the one that includes it")));
}

}  // namespace
}  // namespace stretto
