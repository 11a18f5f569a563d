// Dispatch and combine of tokens to experts: every row where the reference has it, the weighted sum
// of what the experts make of it back at its token, over several calls and all kinds of routing.
#include "fibre/scenarios/experts.h"

#include "fibre/expect_clean.h"

namespace stretto::fibre {
namespace {

using namespace stretto::device;

class Experts : public testing::TestWithParam<ExpertCase> {};

TEST_P(Experts, GetEveryTokenAndGiveItBack) {
  const ExpertCase c = GetParam();
  Shape shape{.ranks = 3, .blocks = 2, .threads = 8, .warp_size = 4, .shared_bytes = 4096};
  expect_clean(
      shape, [&](World& world) { expert_calls(world, c); }, 12);
  shape = {.ranks = 2, .blocks = 3, .threads = 1, .warp_size = 1, .shared_bytes = 4096};
  expect_clean(
      shape, [&](World& world) { expert_calls(world, c); }, 4);
}

std::vector<ExpertCase> cases() {
  std::vector<ExpertCase> all;
  for (Pattern pattern : {Pattern::kUniform, Pattern::kZipf, Pattern::kOneHot, Pattern::kOneRank,
                          Pattern::kEmptyRank, Pattern::kDropped, Pattern::kBadIds}) {
    ExpertCase c;
    c.pattern = pattern;
    c.name = kPatternNames[int(pattern)];
    all.push_back(c);
  }
  all.push_back({.hidden = 256, .fp8 = 1, .tokens = 2, .name = "Fp8"});
  all.push_back({.hidden = 384, .top_k = 3, .fp8 = 1, .tokens = 2, .name = "Fp8OddHidden"});
  all.push_back({.top_k = 5, .name = "MoreThanARankHas"});
  all.push_back({.pattern = Pattern::kOneRank, .max_rows = 4, .name = "OverCapacity"});
  all.push_back({.hidden = 40, .experts = 12, .top_k = 1, .tokens = 5, .name = "OneEntry"});
  all.push_back({.hidden = 8, .tokens = 40, .name = "ManyTokens"});  // halves send and take
  all.push_back({.hidden = 256, .fp8 = 1, .tokens = 2, .tiny = true, .name = "TinyGroups"});
  // What counts calls, and parts of calls, outgrows 32 bits.
  all.push_back({.before = (uint64{1} << 32) - 2, .name = "After4BillionCalls"});
  all.push_back({.before = (uint64{1} << 32) / kParts - 2, .name = "After4BillionParts"});
  all.push_back(
      {.tokens = 40, .before = (uint64{1} << 32) - 1, .name = "HalvesAfter4BillionCalls"});
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, Experts, testing::ValuesIn(cases()),
                         [](const auto& of) { return std::string(of.param.name); });

struct ManyRanks {
  Shape shape;
  ExpertCase of;
};

// As GPUs that are shared run them: seven, eight and sixteen ranks, odd numbers of blocks, of which
// some have no tokens, or one is left over where a unit is two.
TEST(ManyRanksOfExperts, GetEveryTokenAndGiveItBack) {
  const Shape eight{.ranks = 8, .blocks = 15, .threads = 4, .warp_size = 2, .shared_bytes = 8192};
  Shape seven = eight, sixteen = eight, wide = eight;
  seven.ranks = 7;
  seven.blocks = 5;
  sixteen.ranks = 16;
  sixteen.blocks = 3;
  wide.blocks = 3;
  wide.threads = 32;
  wide.warp_size = 8;
  const ManyRanks all[] = {
      {eight, {.hidden = 128, .experts = 16, .top_k = 4, .fp8 = 1, .tokens = 8, .name = "Eight"}},
      {eight, {.hidden = 8, .tokens = 62, .name = "EightInHalves"}},
      {seven, {.pattern = Pattern::kZipf, .hidden = 128, .fp8 = 1, .name = "Seven"}},
      {seven, {.pattern = Pattern::kOneRank, .hidden = 8, .tokens = 21, .name = "SevenInHalves"}},
      {sixteen, {.pattern = Pattern::kOneHot, .top_k = 3, .tokens = 4, .name = "Sixteen"}},
      {wide, {.pattern = Pattern::kDropped, .hidden = 128, .fp8 = 1, .tokens = 14, .name = "Wide"}},
  };
  for (const ManyRanks& many : all) {
    SCOPED_TRACE(many.of.name);
    expect_clean(
        many.shape, [&](World& world) { expert_calls(world, many.of); }, 4);
  }
}

// Blocks run in their order: where a rank has room for some only, the others come after them, since
// none waits for a later one of another rank.
TEST(ManyRanksOfExperts, GoOnWhereNotAllBlocksRunAtOnce) {
  const ExpertCase c{.hidden = 128, .experts = 8, .fp8 = 1, .tokens = 8, .name = "FewTokens"};
  for (const int resident : {1, 3}) {
    const Shape shape{
        .ranks = 4, .blocks = 5, .threads = 4, .resident_blocks = resident, .shared_bytes = 8192};
    expect_clean(
        shape, [&](World& world) { expert_calls(world, c); }, 8);
  }
}

// One row of scratch a warp: a block of 1024 threads has room for top 64 of 512 experts.
TEST(ExpertShapes, SharedMemorySufficesForManyExpertsOfAToken) {
  EXPECT_LT(dispatch_shared_bytes({7168, 512, 64, 4096, 1 << 20, 1, 1}, 8, 1024), 48u << 10);
  ExpertCase c{.experts = 24, .top_k = 20, .tokens = 2};
  Shape shape{.ranks = 2, .blocks = 1, .threads = 16, .warp_size = 4};
  shape.shared_bytes =
      int(dispatch_shared_bytes({c.hidden, c.experts, c.top_k, c.tokens, 0, 2, 0}, 2, 16, 4));
  expect_clean(
      shape, [&](World& world) { expert_calls(world, c); }, 4);
}

TEST(ExpertShapes, AreRefusedWithAReason) {
  const ExpertShape good{256, 8, 2, 16, 64, 1, 1};
  EXPECT_EQ(why_illegal(good, 4), nullptr);
  const auto with = [&](auto change) {
    ExpertShape shape = good;
    change(shape);
    return why_illegal(shape, 4);
  };
  EXPECT_STREQ(with([](ExpertShape& s) { s.top_k = 9; }),
               "top_k must be at least 1 and at most the number of experts");
  EXPECT_STREQ(with([](ExpertShape& s) { s.experts = 6; }),
               "experts must be a multiple of the ranks, each of which owns as many");
  EXPECT_NE(with([](ExpertShape& s) { s.hidden = 100; }), nullptr);
  EXPECT_NE(with([](ExpertShape& s) { s.hidden = 200; }), nullptr);
  EXPECT_NE(with([](ExpertShape& s) { s.row_align = 0; }), nullptr);
}

}  // namespace
}  // namespace stretto::fibre
