// Presets of libraries' kernels where these do not make all products of an operator.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/text.h"
#include "schedule/cases.h"
#include "stretto/check.h"
#include "stretto/error.h"
#include "stretto/lower.h"

namespace stretto {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

Operator shared_experts(int ranks) {
  return parse_operator(fmt::format(
      "moe-ep-shared t=203 h=256 f=96 s=136 experts={} k=3 ranks={} dtype=bf16", 3 * ranks, ranks));
}

// With a router and a shared expert, whose activation stands beside tables as well.
Operator routed_and_shared(int ranks) {
  const auto graph = parse_graph(
      "graph own t h s f experts k\ninput x [t, h] rows\ninput wr [experts, h] whole\n"
      "input sg [s, h] whole\ninput su [s, h] whole\ninput sd [h, s] whole\n"
      "input wg [experts, f, h] experts\ninput wu [experts, f, h] experts\n"
      "input wd [experts, h, f] experts\nscores = gemm x wr\n"
      "ids = top_k scores k=k\nweights = softmax_gate scores ids\nsgx = gemm x sg\nsux = gemm x "
      "su\n"
      "sa = swiglu sgx sux\nshared = gemm sa sd\ng = grouped x wg ids\nu = grouped x wu ids\n"
      "a = swiglu g u\nd = grouped a wd ids\nrouted = weigh d ids weights\n"
      "y = add routed shared\noutput y rows\n");
  return make_graph(
      graph, {{"t", 203}, {"h", 256}, {"s", 136}, {"f", 96}, {"experts", 3 * ranks}, {"k", 3}},
      ranks, DType::bf16);
}

TEST(OnlyTiles, PresetsServeSharedExperts) {
  for (const int ranks : {1, 2, 3, 4, 8}) {
    const Machine machine = default_machine(ranks);
    for (const Operator& op : {shared_experts(ranks), routed_and_shared(ranks)}) {
      for (const char* name : {"library", "low-latency", "few-rows"}) {
        SCOPED_TRACE(to_string(op) + " " + name);
        const NamedSchedule named = read_schedules(name, op, machine);
        EXPECT_EQ(named.schedule, schedule_of(find_preset(name), op, machine));
        EXPECT_THAT(legal(op, named.schedule, machine), IsEmpty());
        EXPECT_TRUE(check(lower(op, named.schedule, machine)).clean());
        for (size_t i = 0; i < named.schedule.products.size(); ++i) {
          const bool is_followed = named.schedule.names[i] == "sa";
          EXPECT_EQ(named.schedule.products[i].gemm == GemmBy::tiles, is_followed);
        }
        EXPECT_EQ(named.reason,
                  "sa by tiles: swiglu behind the product, which beside experts and look-ups only "
                  "tiles do");
        EXPECT_EQ(parse_schedules(to_string(named.schedule), op, machine), named.schedule);
      }
    }
  }
}

TEST(OnlyTiles, PartsOfRowsDoSo) {
  const Operator op = shared_experts(4);
  const Machine machine = default_machine(4);
  const NamedSchedule named =
      read_schedules("split=2/library,algorithm=2/a:library/routed:library", op, machine);
  EXPECT_EQ(named.schedule.split, 2);
  EXPECT_EQ(named.schedule.products.at(0).gemm, GemmBy::tiles);
  EXPECT_EQ(named.schedule.products.at(0).algorithm, 0);
  EXPECT_EQ(named.schedule.products.at(1).algorithm, 2);
  EXPECT_THAT(legal(op, named.schedule, machine), IsEmpty());
  EXPECT_TRUE(check(lower(op, named.schedule, machine)).clean());
}

// Who says so by name is refused.
TEST(OnlyTiles, WhatIsAskedForByNameIsRefused) {
  const Operator op = shared_experts(2);
  const Machine machine = default_machine(2);
  const auto reasons = legal(op, parse_schedules("sequential,gemm=library", op, machine), machine);
  EXPECT_THAT(join(reasons, "; "),
              HasSubstr("sa: gemm=library with swiglu behind the product, which beside experts and "
                        "look-ups only tiles do: take gemm=tiles"));
}

// Columns of a rank in no multiple of 8, and sums over few of them.
TEST(OnlyTiles, ServeExpertsThatTheirKernelDoesNotHave) {
  for (const char* text : {"moe-tp t=50 h=64 f=72 experts=4 k=2 ranks=3 dtype=bf16",
                           "moe-ep t=50 h=64 f=32 experts=4 k=2 ranks=2 dtype=bf16",
                           "moe-ep t=50 h=80 f=128 experts=1026 k=2 ranks=2 dtype=bf16"}) {
    SCOPED_TRACE(text);
    const Operator op = parse_operator(text);
    const Machine machine = default_machine(op.ranks);
    for (const char* name : {"library", "low-latency"}) {
      const NamedSchedule named = read_schedules(name, op, machine);
      EXPECT_THAT(named.reason, HasSubstr(" by tiles: "));
      EXPECT_THAT(named.reason, HasSubstr("where their kernel has at most 512"));
      EXPECT_THAT(legal(op, named.schedule, machine), IsEmpty());
      EXPECT_TRUE(check(lower(op, named.schedule, machine)).clean());
    }
  }
}

TEST(OnlyTiles, NothingIsSaidWhereLibrariesServe) {
  const Operator op = parse_operator("moe-ep t=64 h=256 f=128 experts=4 k=2 ranks=2 dtype=bf16");
  EXPECT_EQ(read_schedules("library", op, default_machine(2)).reason, "");
}

}  // namespace
}  // namespace stretto
