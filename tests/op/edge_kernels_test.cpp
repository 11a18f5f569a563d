// Kernels of a user's own that graphs name: their text, exact, and what is refused of it, all of it
// at once and each with its place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "refusal.h"
#include "stretto/operator.h"

namespace stretto {
namespace {

using testing::HasSubstr;

std::string graph_with(const std::string& kernels) {
  return "graph g m n k\n" + kernels +
         "input x [m, k] cols\n"
         "input w [n, k] cols\n"
         "y = gemm x w\n"
         "output y whole\n";
}

std::string refused(const std::string& kernels) {
  return refusal([&] { parse_graph(graph_with(kernels), "my.graph"); });
}

Operator bound(const std::string& kernels, int ranks = 4) {
  return make_graph(parse_graph(graph_with(kernels)), {{"m", 64}, {"n", 32}, {"k", 16}}, ranks,
                    DType::bf16);
}

TEST(EdgeKernels, ReadAndPrintExactly) {
  const std::string text = graph_with(
      "kernel ring_sum all-reduce \"ring_sum.h\" slots=2*ranks signals=16 blocks=8 threads=512\n"
      "kernel to_all gather \"kernels/to all.h\" us=12.5\n"
      "kernel to_owners reduce-scatter \"o.hpp\"\n");
  EXPECT_EQ(print(*parse_graph(text)), text);
  const std::string spread = graph_with(
      "  kernel  ring_sum all-reduce \"ring_sum.h\"  signals = m * (ranks + 1) slots= 3 # a sum\n");
  const std::string printed = print(*parse_graph(spread));
  EXPECT_THAT(printed, HasSubstr("kernel ring_sum all-reduce \"ring_sum.h\" slots=3 "
                                 "signals=m*(ranks+1)\n"));
  EXPECT_EQ(print(*parse_graph(printed)), printed);
}

TEST(EdgeKernels, HaveMemoryByTheSizesAndRanks) {
  const Operator op = bound(
      "kernel ring_sum all-reduce \"ring_sum.h\" slots=2*ranks signals=m+ranks us=3\n"
      "kernel other gather \"o.h\" blocks=3 threads=64\n");
  ASSERT_EQ(op.kernels.size(), 2u);
  EXPECT_EQ(op.kernels[0].name, "ring_sum");
  EXPECT_EQ(op.kernels[0].edge, Edge::all_reduce);
  EXPECT_EQ(op.kernels[0].header, "ring_sum.h");
  EXPECT_EQ(op.kernels[0].slots, 8);
  EXPECT_EQ(op.kernels[0].signals, 68);
  EXPECT_EQ(op.kernels[0].us, 3);
  EXPECT_EQ(op.kernels[1].edge, Edge::gather);
  EXPECT_EQ(op.kernels[1].slots, 0);
  EXPECT_EQ(op.kernels[1].blocks, 3);
  EXPECT_EQ(op.kernels[1].threads, 64);
  EXPECT_EQ(bound("kernel r all-reduce \"r.h\" slots=2*ranks\n", 2).kernels[0].slots, 4);
}

// What a header says goes with the operator, also of other rows, and is no part of its text.
TEST(EdgeKernels, KeepTheTextsOfTheirHeaders) {
  const Operator op = bound("kernel r all-reduce \"r.h\"\nkernel s gather \"s.h\"\n");
  const Operator given = with_kernel_sources(op, [](const EdgeKernel& kernel) {
    return kernel.name == "r" ? std::make_shared<const std::string>("of " + kernel.header)
                              : nullptr;
  });
  EXPECT_EQ(op.kernels[0].source, nullptr);
  for (const Operator& one : {given, with_rows(given, 8)}) {
    ASSERT_NE(one.kernels[0].source, nullptr);
    EXPECT_EQ(*one.kernels[0].source, "of r.h");
    EXPECT_EQ(one.kernels[1].source, nullptr);
  }
  EXPECT_EQ(given, op);
  EXPECT_EQ(print(*given.text), print(*op.text));
}

TEST(EdgeKernels, AreRefusedAllAtOnceWithLineAndColumn) {
  EXPECT_EQ(
      refused("kernel my-sum all-reduce \"r.h\"\n"
              "kernel a all_reduce \"r.h\"\n"
              "kernel b gather r.h\n"
              "kernel c gather \"../r.h\"\n"
              "kernel d gather \"/r.h\"\n"
              "kernel e gather \"\"\n"
              "kernel f gather \"f.h\" slots=rows\n"
              "kernel g gather \"g.h\" threads=48\n"
              "kernel h gather \"h.h\" blocks=0\n"
              "kernel i gather \"i.h\" slots=1 slots=2\n"
              "kernel j gather \"j.h\" slot=1\n"
              "kernel k gather \"k.h\" us=0\n"
              "kernel l gather \"l.h\n"
              "kernel m gather \"m.h\"\n"
              "kernel m gather \"n.h\"\n"),
      "my.graph:2:8: kernel my-sum: the name of a kernel's template has letters, digits and '_' "
      "only; "
      "my.graph:3:10: unknown edge of a kernel 'all_reduce' (did you mean 'all-reduce'?); known: "
      "gather, reduce-scatter, all-reduce; "
      "my.graph:4:17: expected the kernel's header in quotes, as \"b.h\", found 'r.h'; "
      "my.graph:5:17: '../r.h' leaves the folder: a header lies beside the graph, or in a folder "
      "there; "
      "my.graph:6:17: '/r.h' leaves the folder: a header lies beside the graph, or in a folder "
      "there; "
      "my.graph:7:17: a header's name has 1 to 255 characters, no '\\' and none that cannot be "
      "printed; "
      "my.graph:8:29: unknown size 'rows'; known: m, n, k, ranks; "
      "my.graph:9:31: expected a multiple of 32 up to 1024, found '48'; "
      "my.graph:10:30: expected a whole number from 1 to 1024, found '0'; "
      "my.graph:11:31: slots is there twice; "
      "my.graph:12:23: unknown attribute of a kernel 'slot' (did you mean 'slots'?); known: slots, "
      "signals, blocks, threads, us; "
      "my.graph:13:26: expected microseconds, above 0, found '0'; "
      "my.graph:14:17: the header's name has no quote behind it; "
      "my.graph:16:8: kernel m is there twice");
}

TEST(EdgeKernels, AreNotNamedAsSchedulesNameNone) {
  EXPECT_EQ(refused("kernel none all-reduce \"k.h\"\n"),
            "my.graph:2:8: kernel none: in schedules that word is no kernel: name it otherwise");
}

TEST(EdgeKernels, AreAsManyAsPlansCanName) {
  std::string all;
  for (size_t i = 0; i <= kMostEdgeKernels; ++i) {
    all += "kernel k" + std::to_string(i) + " gather \"k.h\"\n";
  }
  EXPECT_THAT(refused(all), HasSubstr("my.graph:66:8: a graph names at most 64 kernels"));
}

TEST(EdgeKernels, WithTooMuchMemoryAreRefused) {
  EXPECT_THAT(refusal([] { bound("kernel r all-reduce \"r.h\" slots=m*m*m*m\n"); }),
              HasSubstr("2:8: kernel r: slots=m*m*m*m is 16777216; it can be at most 1048576"));
}

}  // namespace
}  // namespace stretto
