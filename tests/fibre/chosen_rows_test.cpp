// Rows to the ranks of their experts and back: the right bits and counts on every rank by any
// schedule, whatever tokens choose.
#include "fibre/scenarios/chosen_rows.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "fibre/expect_clean.h"
#include "fibre/scenarios/routed_rows.h"

namespace stretto::fibre {
namespace {

TEST(ChosenRows, GoAndComeBack) {
  const Shape shapes[] = {{.ranks = 2, .blocks = 2, .threads = 4},
                          {.ranks = 3, .blocks = 2, .threads = 3},
                          {.ranks = 4, .blocks = 1, .threads = 2},
                          {.ranks = 1, .blocks = 2, .threads = 2}};
  for (const Shape& shape : shapes) {
    for (const ChosenCase& its :
         {ChosenCase{true, 3, 7},
          ChosenCase{false, 5, 7},
          ChosenCase{false, 2, 3},
          ChosenCase{false, 5, 7, true},
          ChosenCase{false, 11, 3, true},
          ChosenCase{true, 3, 7, false, true},
          ChosenCase{false, 5, 7, false, true},
          ChosenCase{true, 3, 7, false, false, true},
          ChosenCase{false, 5, 7, false, true, true},
          ChosenCase{false, 11, 13, false, false, true},
          ChosenCase{false, 6, 9, false, true, true, 5},
          ChosenCase{true, 8, 7, false, false, true, 9},
          ChosenCase{.by_choice = false, .top_k = 5, .tokens = 7, .early = true},
          ChosenCase{.by_choice = false, .top_k = 11, .of_all_experts = true, .early = true},
          ChosenCase{.by_choice = false, .tokens = 13, .early = true},
          ChosenCase{.by_choice = false, .tokens = 13, .early = true, .behind_two = true},
          ChosenCase{.by_choice = false, .comes_back = false},
          ChosenCase{.by_choice = false, .top_k = 5, .of_all_experts = true, .comes_back = false},
          ChosenCase{.by_choice = false,
          .top_k = 8,
          .tokens = 2,
          .of_all_experts = true,
          .comes_back = false},
          ChosenCase{.by_choice = false, .top_k = 1, .tokens = 1, .comes_back = false}}) {
      SCOPED_TRACE(fmt::format("{} ranks, {} tokens, k {}", shape.ranks, its.tokens, its.top_k));
      Shape with_room = shape;
      if (its.many) with_room.shared_bytes = NamedTerms::kBytes;
      expect_clean(
          with_room, [=](World& world) { chosen_rows_calls(world, its); },
          shape.ranks <= 3 ? 12 : 4);
    }
  }
}

TEST(ChosenRows, ComeWithTheirPartition) {
  const Shape shapes[] = {{.ranks = 2, .blocks = 2, .threads = 4, .shared_bytes = 4096},
                          {.ranks = 3, .blocks = 2, .threads = 3, .shared_bytes = 4096},
                          {.ranks = 2, .blocks = 4, .threads = 3, .shared_bytes = 4096},
                          {.ranks = 4, .blocks = 1, .threads = 2, .shared_bytes = 4096}};
  for (const Shape& shape : shapes) {
    SCOPED_TRACE(fmt::format("{} ranks, {} threads", shape.ranks, shape.threads));
    expect_clean(shape, routed_rows_calls, shape.ranks <= 3 ? 12 : 4);
    expect_clean(shape, routed_rows_of_all, shape.ranks <= 3 ? 12 : 4);
    expect_clean(shape, routed_rows_of_ids, shape.ranks <= 3 ? 12 : 4);
  }
}

// A rank that refuses its call leaves the others to wait, and then to what runs behind: sums read
// rows by the tables of a partition that nobody made.
TEST(ChosenRows, NameRowsThatThereAreWhereARankIsAbsent) {
  for (const int blocks : {2, 4}) {
    SCOPED_TRACE(fmt::format("{} blocks", blocks));
    expect_clean({.ranks = 2, .blocks = blocks, .threads = 3, .shared_bytes = 4096},
                 routed_rows_of_one, 12);
  }
}

}  // namespace
}  // namespace stretto::fibre
