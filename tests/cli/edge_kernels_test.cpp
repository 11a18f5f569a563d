// Graphs that name kernels of the user's own, in one command: compiled, executed and verified; and
// what is said where that cannot be.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>

#include "cli/command.h"
#include "stub_environment.h"

namespace stretto {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Words = std::vector<std::string>;

class EdgeKernelsOfGraphs : public StubEnvironment {
 protected:
  static constexpr const char* kGraph =
      "graph own m n k\n"
      "kernel keep all-reduce \"keep.h\" slots=ranks*ranks signals=1 blocks=2\n"
      "input x [m, k] cols\n"
      "input w [n, k] cols\n"
      "y = gemm x w\n"
      "output y whole\n";
  // All terms to all ranks, each of which adds them up. Calls wait for all ranks at their end.
  static constexpr const char* kHeader =
      "#pragma once\n"
      "#include \"stretto/device/lang/edge_kernel.h\"\n"
      "#include \"stretto/device/lang/shmem.h\"\n"
      "using namespace stretto::device;\n"
      "template <class Format, class Block>\n"
      "STRETTO_KERNEL void keep(Block& block, const EdgeArgs<Block>& args) {\n"
      "  Shmem shmem(block);\n"
      "  const auto me = static_cast<uint64>(shmem.my_pe());\n"
      "  const auto ranks = static_cast<uint64>(shmem.n_pes());\n"
      "  if (block.block_idx() == 0) {\n"
      "    for (int to = 0; to < shmem.n_pes(); ++to)\n"
      "      shmem.putmem_block(args.slots + me * ranks * args.part, args.input,\n"
      "                         args.count * sizeof(Vec16), to);\n"
      "    if (!shmem.barrier_all_block()) return;\n"
      "    for (auto i = uint64(block.thread_idx()); i < args.count;\n"
      "         i += uint64(block.num_threads())) {\n"
      "      float sums[Format::kElements] = {};\n"
      "      for (uint64 from = 0; from < ranks; ++from)\n"
      "        Format::add(sums, args.slots[from * ranks * args.part + i]);\n"
      "      args.output[i] = Format::round(sums);\n"
      "    }\n"
      "    shmem.barrier_all_block();\n"
      "  }\n"
      "}\n";

  void SetUp() override {
    if (stretto_says({"run"}, "; command -v c++ >/dev/null").exit_code != 0) {
      GTEST_SKIP() << "no C++ compiler c++";
    }
  }

  std::string graph() const { return folder_.file("own.graph", kGraph); }
  std::string header(const std::string& text = kHeader) const {
    return folder_.file("keep.h", text);
  }
  static std::string replaced(std::string text, const std::string& from, const std::string& to) {
    return text.replace(text.find(from), from.size(), to);
  }
  Words line(const char* verb, const Words& more = {}) const {
    return Words{verb,   graph(),      "m=20",
                 "n=32", "k=48",       "--ranks",
                 "3",    "--strategy", "sequential,kernel=keep"} +
           more;
  }

  ScratchFolder folder_;
};

TEST_F(EdgeKernelsOfGraphs, RunInOneCommand) {
  header();
  const Said said = stretto_says(line("run", {"--fill", "integers", "--json"}));
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_THAT(said.out, HasSubstr("\"verified\": true"));
  EXPECT_THAT(said.out, HasSubstr("kernel=keep"));
}

// Nothing of a header is needed where nothing is executed.
TEST_F(EdgeKernelsOfGraphs, ArePlannedProvedAndSimulatedWithoutTheHeader) {
  for (const char* verb : {"plan", "check", "simulate"}) {
    EXPECT_EQ(stretto_says(line(verb)).exit_code, 0) << verb;
  }
  EXPECT_THAT(stretto_says(line("plan")).out, HasSubstr("collective all_reduce 0 kernel=keep "));
  EXPECT_THAT(stretto_says(line("plan", {"--program"})).out, HasSubstr("kernel=keep"));
  const Said said = stretto_says(line("run"));
  EXPECT_EQ(said.exit_code, 2);
  EXPECT_THAT(said.err, HasSubstr("kernel keep is in 'keep.h', which is not there: it lies beside "
                                  "the graph file, or --kernels FOLDER says where"));
}

// A plan file names code, and brings none: whoever runs it says where it is.
TEST_F(EdgeKernelsOfGraphs, OfPlanFilesAreTakenFromTheFolderThatTheUserNames) {
  header();
  const std::string plan = folder_.path("own.plan");
  ASSERT_EQ(stretto_says(line("plan", {"-o", plan})).exit_code, 0);
  EXPECT_EQ(stretto_says({"check", plan}).exit_code, 0);
  const Said alone = stretto_says({"run", plan});
  EXPECT_EQ(alone.exit_code, 2);
  EXPECT_THAT(alone.err, HasSubstr("a plan file always needs --kernels"));
  const Said named = stretto_says({"run", plan, "--kernels", folder_.path("")});
  EXPECT_EQ(named.exit_code, 0) << named.err;
  EXPECT_THAT(stretto_says({"run", plan, "--kernels", folder_.path("none")}).err,
              HasSubstr("is no folder: say in which one the headers are"));
}

TEST_F(EdgeKernelsOfGraphs, ThatAreWrongAreNamedWithTheirLine) {
  header(replaced(kHeader, "args.count * sizeof(Vec16), to)", "args.count * sizeof(Vec17), to)"));
  const Said bad = stretto_says(line("run"));
  EXPECT_EQ(bad.exit_code, 2);
  EXPECT_THAT(bad.err, HasSubstr("kernel keep of 'keep.h' does not compile for the emulator: "
                                 "keep.h:13:"));
  EXPECT_THAT(bad.err, HasSubstr("Vec17"));
  header(replaced(kHeader, "if (!shmem.barrier_all_block()) return;", ""));
  const Said racing = stretto_says(line("run"));
  EXPECT_EQ(racing.exit_code, 1);
  EXPECT_THAT(racing.out, HasSubstr("kernel keep:"));
  EXPECT_THAT(racing.out, HasSubstr("keep.h:"));
}

// By names that are relative to who includes them; errors are named with their line.
TEST_F(EdgeKernelsOfGraphs, MayIncludeHeadersOfTheUsersOwn) {
  std::filesystem::create_directories(folder_.path("parts/more"));
  const std::string slot_of =
      "#pragma once\n#include \"../common.h\"\n"
      "inline Index slot_of(Index rank, Index ranks, Index part) { return rank * ranks * part; }\n";
  folder_.file("parts/more/slot.h", slot_of);
  folder_.file("parts/common.h",
               "/* common\n#include \"nothing.h\"\n*/\nusing Index = stretto::device::uint64;\n");
  header("#include \"parts/common.h\"\n" +
         replaced(replaced(kHeader, "args.slots + me * ranks * args.part",
                           "args.slots + slot_of(me, ranks, args.part)"),
                  "using namespace", "#include \"parts/more/slot.h\"\nusing namespace"));
  const Said said = stretto_says(line("run", {"--fill", "integers", "--json"}));
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_THAT(said.out, HasSubstr("\"verified\": true"));
  folder_.file("parts/more/slot.h", replaced(slot_of, "{ return rank", "{ return bank"));
  EXPECT_THAT(stretto_says(line("run")).err,
              HasSubstr("kernel keep of 'keep.h' does not compile for the emulator: "
                        "parts/more/slot.h:3:"));
  folder_.file("parts/more/slot.h", slot_of);
  header("#include \"parts/none.h\"\n" + std::string(kHeader));
  EXPECT_THAT(stretto_says(line("run")).err,
              AllOf(HasSubstr("keep.h:1:10: fatal error: parts/none.h: No such file"),
                    HasSubstr("a header of your own lies beside the one that includes it, in the "
                              "graph file's folder or that of --kernels")));
}

// It is the compiler that says which includes live, as it would of files; and which line is whose.
TEST_F(EdgeKernelsOfGraphs, IncludeWhatTheCompilerDoesNotSkip) {
  folder_.file("index.h", "\n\nusing Index = stretto::device::uint64;\n");
  const std::string using_index = replaced(kHeader, "const auto ranks = static_cast<uint64>",
                                           "const auto ranks = static_cast<Index>");
  const std::string head =
      "#define GLOB \"a/*\"\n"
      "#if 0\n#include \"index.h\"\n#elif defined(NEVER)\n#include \"index.h\"\n#endif\n"
      "#include \"index.h\" /* for what\n counts */\n#include \"index.h\"\n";
  header(head + using_index);
  const Said said = stretto_says(line("run", {"--fill", "integers", "--json"}));
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_THAT(said.out, HasSubstr("\"verified\": true"));
  header(head + "#if 0\n#include \"index.h\"\n#endif\n" +
         replaced(using_index, "static_cast<Index>", "static_cast<Wrong>"));
  EXPECT_THAT(stretto_says(line("run")).err, HasSubstr("emulator: keep.h:21:"));
}

// Who runs a graph of somebody else's is not made to read out files of the machine.
TEST_F(EdgeKernelsOfGraphs, IncludeNothingFromOutsideTheirFolder) {
  std::filesystem::create_symlink("/etc/hostname", folder_.path("out.h"));
  header("#include \"out.h\"\n" + std::string(kHeader));
  const Said linked = stretto_says(line("run"));
  EXPECT_EQ(linked.exit_code, 2);
  EXPECT_EQ(linked.err,
            "stretto: 'out.h' is a link that leads out of the folder of the headers: put the file "
            "itself there\n");
  header("#include \"../../../../../../../../etc/hostname\"\n" + std::string(kHeader));
  const Said left = stretto_says(line("run"));
  EXPECT_EQ(left.exit_code, 2);
  EXPECT_THAT(left.err, HasSubstr("stretto: keep.h:1 includes '../../../../../../../../etc/"
                                  "hostname', which is not in the folder of the headers: "));
}

TEST_F(EdgeKernelsOfGraphs, ThatAreNotInTheirHeadersAreNamed) {
  header(replaced(kHeader, "void keep(", "void kept("));
  EXPECT_THAT(stretto_says(line("run")).err,
              HasSubstr("does not compile for the emulator: the graph's kernel keep:1:"));
}

// Whatever ends the command while the compiler runs, which says that here itself.
TEST_F(EdgeKernelsOfGraphs, LeaveNothingBehindWhereASignalEndsTheCommand) {
  header();
  const std::string stub =
      folder_.file("c++", "#!/bin/sh\nkill -TERM $PPID\n(sleep 5; : > \"$TMPDIR/still-here\")\n");
  std::filesystem::permissions(stub, std::filesystem::perms::owner_all);
  const ScratchFolder temporary;
  set("TMPDIR", temporary.path(""));
  set("PATH", folder_.path("") + ":/usr/bin:/bin");
  const Said said = stretto_says(line("run"));
  EXPECT_EQ(said.exit_code, 128 + SIGTERM) << said.err;
  EXPECT_TRUE(std::filesystem::is_empty(temporary.path("")));
}

TEST_F(EdgeKernelsOfGraphs, NeedACompiler) {
  header();
  set("PATH", folder_.path(""));
  const Said said = stretto_says(line("run"));
  EXPECT_EQ(said.exit_code, 2);
  EXPECT_THAT(said.err, HasSubstr("there is no C++ compiler c++ on PATH"));
}

// Strategies that do not name it never take it.
TEST_F(EdgeKernelsOfGraphs, AreNotTakenUnlessTheyAreAskedFor) {
  header("#error this is not to be compiled\n");
  Words words = line("run");
  words.back() = "all";
  const Said said = stretto_says(words);
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_THAT(said.out, Not(HasSubstr("kernel=")));
}

}  // namespace
}  // namespace stretto
