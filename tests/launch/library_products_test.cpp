// What a library is told to multiply: element by element what the plan's gemms say, in few calls.
#include "launch/library_products.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "launch/join_products.h"
#include "launch/library_limits.h"
#include "plan/placed.h"
#include "plan_fixture.h"
#include "tables/kernel_set.h"
#include "tables/plan_limits.h"
#include "tables/plan_tables.h"

namespace stretto::cuda {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// Where an element of a result comes from: (buffer, row) of A, row of B, range of K.
using Source = std::tuple<uint16_t, int32_t, int32_t, int32_t, int32_t>;
using Elements = std::map<std::tuple<uint16_t, int32_t, int32_t>, Source>;

void add(Elements& elements, const Region& to, int32_t row, int32_t column, const Source& source) {
  EXPECT_TRUE(elements.emplace(std::tuple(to.buffer, row, column), source).second);
}

Elements elements_of(const Plan& plan, const std::vector<BlockPart>& kernel) {
  Elements elements;
  for (const BlockPart& part : kernel) {
    for (uint32_t at = part.begin; at < part.end; ++at) {
      const Instr& gemm = plan.lanes[part.lane].instrs[at];
      EXPECT_EQ(gemm.op, Opcode::gemm);
      const Region& b = plan.reads(gemm).back();
      std::vector<std::pair<const Region*, int32_t>> rows;  // of A, by row of the tile
      for_each_row_part(plan, gemm, [&](const RowPart& of) {
        for (int32_t row = of.a->row0; row < of.a->row1; ++row) rows.emplace_back(of.a, row);
      });
      for (const Placed& placed : placed_writes(plan, gemm)) {
        const Region& to = placed.region;
        for (int32_t row = 0; row < to.rows(); ++row) {
          const auto& [a, a_row] = rows[static_cast<size_t>(placed.row + row)];
          for (int32_t column = 0; column < to.cols(); ++column) {
            add(elements, to, to.row0 + row, to.col0 + column,
                {a->buffer, a_row, b.row0 + column, a->col0, a->col1});
          }
        }
      }
    }
  }
  return elements;
}

Elements elements_of(const std::vector<Product>& products) {
  Elements elements;
  for (const Product& product : products) {
    const auto &a = product.a, &b = product.b, &c = product.c;
    EXPECT_EQ(a.rows(), c.rows());
    EXPECT_EQ(b.rows(), c.cols());
    EXPECT_EQ(std::pair(a.col0, a.col1), std::pair(b.col0, b.col1));
    for (int32_t row = 0; row < c.rows(); ++row) {
      for (int32_t column = 0; column < c.cols(); ++column) {
        add(elements, c, c.row0 + row, c.col0 + column,
            {a.buffer, a.row0 + row, b.row0 + column, a.col0, a.col1});
      }
    }
  }
  return elements;
}

TEST(LibraryProducts, AreWhatTheGemmsOfAKernelSay) {
  for (const char* kind : {"ag-gemm", "gemm-rs", "gemm-ar"}) {
    for (const char* schedule :
         {"library,tile=32x32", "two-chunk,gemm=library,tile=32x16",
          "decomposed,gemm=library,tile=16x32", "decomposed,gemm=library,chunks=3,reuse=double",
          "decomposed,gemm=library,partials=fp32,comm-sms=4"}) {
      for (const int ranks : {1, 2, 3, 4, 8}) {
        for (const int m : {5, 64, 101}) {
          const std::string op = fmt::format("{} m={} n={} k={} ranks={} dtype=bf16", kind, m,
                                             24 * ranks, 8 * ranks, ranks);
          const bool gathers = std::string_view(kind) == "ag-gemm";
          if (gathers && std::string_view(schedule).find("fp32") != std::string_view::npos)
            continue;
          SCOPED_TRACE(op + " " + schedule);
          const Plan plan = plan_of(op, schedule);
          ASSERT_TRUE(plan.library_gemms);
          ASSERT_THAT(why_not_on_cuda(plan), IsEmpty());
          for (const RankProgram& program : programs_of(plan)) {
            for (const std::vector<BlockPart>& kernel : program.gemms) {
              const std::vector<Product> products = products_of(plan, kernel);
              EXPECT_EQ(elements_of(products), elements_of(plan, kernel));
              // Of every rank's rows at most.
              EXPECT_LE(products.size(), static_cast<size_t>(ranks));
            }
          }
        }
      }
    }
  }
}

TEST(LibraryProducts, OneIsAllOfASequentialRank) {
  for (const char* kind : {"ag-gemm", "gemm-rs", "gemm-ar"}) {
    const Plan plan =
        plan_of(fmt::format("{} m=1000 n=2048 k=2048 ranks=4 dtype=fp16", kind), "library");
    const bool gathers = plan.op.only_product()->kind == kAgGemm;
    for (const RankProgram& program : programs_of(plan)) {
      EXPECT_EQ(text(plan, program), gathers ? "0:collective 0:gemm 0" : "0:gemm 0 0:collective");
      const std::vector<Product> products = products_of(plan, program.gemms[0]);
      ASSERT_THAT(products, SizeIs(1));
      EXPECT_EQ(products[0].c.rows(), 1000);
      EXPECT_EQ(products[0].c.cols(), gathers ? 512 : 2048);
      EXPECT_EQ(products[0].a.cols(), gathers ? 2048 : 512);
    }
  }
}

TEST(LibraryProducts, OwnRowsAreReadWhereTheyAre) {
  const Plan plan =
      plan_of("ag-gemm m=512 n=512 k=512 ranks=2 dtype=bf16", "decomposed,gemm=library");
  const RankProgram program = programs_of(plan)[1];
  std::vector<std::string> sources;
  for (const auto& kernel : program.gemms) {
    for (const Product& product : products_of(plan, kernel)) {
      sources.push_back(describe(plan, product.a));
    }
  }
  EXPECT_THAT(sources, ElementsAre("a@1[0:256,0:512]", "ag@1[0:256,0:512]"));
}

// Gate and up have the rows of one A, and what they make lies beside one another.
TEST(LibraryProducts, OfAGateLieBesideOneAnother) {
  const Operator op = parse_operator("mlp m=512 h=256 f=512 ranks=2 dtype=bf16");
  const Machine machine = default_machine(2);
  for (const char* schedule : {"library", "decomposed,gemm=library"}) {
    SCOPED_TRACE(schedule);
    const Plan plan = lower(op, parse_schedules(schedule, op, machine), machine);
    const RankProgram program = programs_of(plan)[1];
    size_t gated = 0;
    for (const std::vector<BlockPart>& kernel : program.gemms) {
      const std::vector<Product> products = products_of(plan, kernel);
      const auto rows = beside_one_another(products);
      size_t number = 0;
      for (const std::vector<Product>& beside : rows) number += beside.size();
      EXPECT_EQ(number, products.size());
      if (product_of_operator(plan, products[0]) != 0) continue;
      for (const std::vector<Product>& beside : rows) {
        ASSERT_THAT(beside, SizeIs(2));
        EXPECT_EQ(plan.buffers[beside[0].b.buffer].name, "wg");
        EXPECT_EQ(plan.buffers[beside[1].b.buffer].name, "wu");
        EXPECT_EQ(beside[0].a, beside[1].a);
        EXPECT_EQ(beside[0].c.cols(), 256);
        EXPECT_EQ(beside[1].c.col0, 256);
        EXPECT_EQ(plan.buffers[beside[1].c.buffer].cols, 512);
        ++gated;
      }
    }
    EXPECT_EQ(gated, std::string_view(schedule) == "library" ? 1u : 2u);
  }
}

TEST(LibraryProducts, OfOneWeightStandAlone) {
  const Plan plan =
      plan_of("ag-gemm m=512 n=512 k=512 ranks=4 dtype=bf16", "decomposed,gemm=library");
  const RankProgram program = programs_of(plan)[1];
  for (const std::vector<BlockPart>& kernel : program.gemms) {
    for (const auto& beside : beside_one_another(products_of(plan, kernel))) {
      EXPECT_THAT(beside, SizeIs(1));
    }
  }
}

TEST(LibraryProducts, NoKernelOfOursIsAskedFor) {
  // Tiles that the GEMM kernel does not have, in rows that TMA cannot read.
  const std::string op = "gemm-rs m=517 n=515 k=514 ranks=2 dtype=bf16";
  EXPECT_THAT(why_not_on_cuda(plan_of(op, "sequential,tile=512x512")), testing::Not(IsEmpty()));
  const Plan plan = plan_of(op, "library,tile=512x512");
  EXPECT_THAT(why_not_on_cuda(plan), IsEmpty());
  EXPECT_THAT(why_not_on_cuda(plan, TileSums(plan), true),
              ElementsAre("a library does not multiply fewer rows than the plan's where NCCL "
                          "moves them: take rows=fixed or collectives=low-latency"));
  const auto programs = programs_of(plan);
  const RankTables tables =
      tables_for(plan, 0, programs[0], places_of(plan), SignalLayout(plan, programs, true));
  EXPECT_THAT(tables.gemms, IsEmpty());
  for (const KernelEntry& entry : kernels_of(plan, "sm_90a")) {
    EXPECT_THAT(entry.name, testing::Not(HasSubstr("gemm")));
  }
}

// Two tiles of one lane, with something between and behind.
std::string refusal(std::string_view between, std::string_view second,
                    std::string_view type = "bf16") {
  const Plan plan = parse_plan(fmt::format(R"(stretto-plan 1
operator ag-gemm m=128 n=64 k=64 ranks=1 dtype=bf16
gemm library
sms 132
buffer a bf16 128x64 input
buffer b bf16 64x64 input
buffer out {} 128x64 output
signals s 1

lane 0 compute 0
  gemm #0 a[0:64,0:64] b[0:64,0:64] -> out[0:64,0:64]{}
  gemm #1 a[64:128,0:64] b[0:64,0:64] -> {}

lane 0 comm 0
  notify s.0@0 += 1
end
)",
                                           type, between, second));
  return why_no_products(plan, TileSums(plan));
}

TEST(LibraryProducts, WhatIsNoWholeProductIsRefused) {
  EXPECT_EQ(refusal("", "out[64:128,0:64]"), "");
  EXPECT_EQ(refusal("\n  wait s.0 >= 1\n  boundary 0", "out[64:128,0:64]"), "");
  EXPECT_EQ(refusal("", "out[64:128,0:64]", "fp32"), "");
  EXPECT_EQ(
      refusal("\n  wait s.0 >= 1", "out[64:128,0:64]"),
      "of gemms that a library multiplies: between two boundaries nothing but notifies stands "
      "before the last");
  EXPECT_THAT(refusal("", "out[0:64,0:64]"), HasSubstr("no two write the same elements"));
  EXPECT_EQ(refusal("\n  boundary 0", "out[0:64,0:64]"), "");
  EXPECT_THAT(refusal("", "a[0:64,0:64]"), HasSubstr("none reads what another writes"));
  EXPECT_THAT(refusal("", "out[64:128,0:64] out[64:128,0:64]"), HasSubstr("stores every row once"));
  EXPECT_THAT(refusal("", "out[64:128,0:64]", "fp16"), HasSubstr("stores bf16 or fp32"));
}

// Each product has the algorithm that its own schedule asks for, however many kernels make it.
TEST(AlgorithmsByProduct, AreThoseOfTheSchedule) {
  const Operator op = parse_operator("mlp m=512 h=1024 f=1024 ranks=2 dtype=bf16");
  const Machine machine = default_machine(2);
  const auto algorithms = [&](const char* text) {
    const Plan plan = lower(op, parse_schedules(text, op, machine), machine);
    return algorithms_by_product(plan, programs_of(plan));
  };
  EXPECT_THAT(algorithms("tiles"), ElementsAre(0, 0));
  EXPECT_THAT(algorithms("library"), ElementsAre(0, 0));
  EXPECT_THAT(algorithms("tiles/down:library,algorithm=5"), ElementsAre(0, 5));
  EXPECT_THAT(algorithms("library,algorithm=2/down:library,algorithm=5"), ElementsAre(2, 5));
  EXPECT_THAT(algorithms("decomposed,gemm=library,algorithm=3/down:tiles"), ElementsAre(3, 0));
}

}  // namespace
}  // namespace stretto::cuda
