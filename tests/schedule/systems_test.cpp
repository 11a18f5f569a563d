// Names of systems stand for points of this space, wherever a preset may stand.
#include "schedule/systems.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "op/graph_text.h"
#include "schedule/set_rows.h"
#include "stretto/check.h"
#include "stretto/error.h"
#include "stretto/lower.h"
#include "stretto/tune.h"

namespace stretto {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

std::vector<std::string> operators(int ranks) {
  std::vector<std::string> texts = {
      "ag-gemm m=203 n=768 k=384",
      "gemm-rs m=203 n=512 k=768",
      "gemm-ar m=203 n=512 k=768",
      "gemv-ar m=3 n=512 k=768",
      "gemm-ar-norm m=2048 n=512 k=768",
      "gemm-rs-norm-ag m=2048 n=512 k=768",
      "mlp m=203 h=384 f=768",
      "mlp-ar m=203 h=384 f=768",
      "gemm-a2a m=203 n=768 k=384",
      "a2a-gemm m=203 n=384 k=768",
      "embedding-a2a bags=50 tables=24 rows=100 dim=64 pool=5",
      "moe-tp t=203 h=384 f=768 experts=12 k=3",
      "moe-tp-down-ar t=203 h=384 f=768 experts=12 k=3",
      "moe-ep t=203 h=384 f=96 experts=24 k=3",
      "moe-ep-shared t=203 h=384 f=96 s=128 experts=24 k=3",
      "moe-ep-slices t=203 h=384 f=96 experts=24 k=3 slices=2",
      "moe-ep-router t=203 h=384 f=96 experts=24 k=3",
      "dispatch t=203 h=384 experts=24 k=3",
      "combine t=203 h=384 experts=24 k=3",
      "dispatch-combine t=203 h=384 experts=24 k=3",
  };
  for (std::string& text : texts) text += fmt::format(" ranks={} dtype=bf16", ranks);
  return texts;
}

bool has(const System& system, SortOfProduct sort) {
  return std::any_of(system.points.begin(), system.points.end(),
                     [&](const NearestPoint& point) { return point.sort == sort; });
}

bool has_all(const System& system, const Operator& op) {
  return std::all_of(op.segments.begin(), op.segments.end(), [&](const OperatorSegment& one) {
    return !one.product || has(system, sort_of(*one.product));
  });
}

std::string refusal_of(std::string_view text, const Operator& op, const Machine& machine) {
  try {
    parse_schedules(text, op, machine);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

class SystemsOnRanks : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, SystemsOnRanks, testing::Values(1, 2, 3, 4, 8),
                         [](const auto& test) { return std::to_string(test.param); });

// What a system has a point for is served, and proved; else its name says what it has.
TEST_P(SystemsOnRanks, ServeWhatTheyHave) {
  const int ranks = GetParam();
  const Machine machine = default_machine(ranks);
  std::set<std::string> proved;  // many names stand for one plan
  for (const std::string& text : operators(ranks)) {
    const Operator op = parse_operator(text);
    int served = 0;
    for (const System& system : systems()) {
      SCOPED_TRACE(fmt::format("{} {}", system.name, text));
      if (!has_all(system, op)) {
        EXPECT_THAT(refusal_of(system.name, op, machine),
                    AllOf(StartsWith(fmt::format("{} has nothing for ", system.name)),
                          HasSubstr("; it has ")));
        continue;
      }
      ++served;
      const NamedSchedule named = read_schedules(system.name, op, machine);
      EXPECT_THAT(named.reason, StartsWith(fmt::format("the nearest point to {}, by Stretto's "
                                                       "kernels: ",
                                                       system.title)));
      EXPECT_THAT(legal(op, named.schedule, machine), IsEmpty());
      if (!proved.insert(to_string(op) + to_string(named.schedule)).second) continue;
      EXPECT_TRUE(check(lower(op, named.schedule, machine)).clean());
    }
    EXPECT_GT(served, 0) << text;
  }
}

// Sizes that do not go by ids, and none of whose rows are short.
TEST(Systems, ServeManyTokens) {
  const Machine machine = default_machine(8);
  const Operator op =
      parse_operator("moe-ep t=131072 h=7168 f=2048 experts=256 k=8 ranks=8 dtype=bf16");
  const auto products_by = [&](const char* name) {
    const NamedSchedule named = read_schedules(name, op, machine);
    EXPECT_THAT(legal(op, named.schedule, machine), IsEmpty());
    return named.schedule;
  };
  EXPECT_EQ(products_by("flashinfer"),
            parse_schedules("a:library,mover=epilogue/y:library,mover=epilogue,reduction=slots", op,
                            machine));
  EXPECT_EQ(products_by("deepep"), products_by("flashinfer"));
  EXPECT_EQ(products_by("megamoe"), products_by("tiles"));
}

TEST(Systems, GoIntoMixturesAndTakeChanges) {
  const Machine machine = default_machine(4);
  const Operator op = parse_operator("mlp m=203 h=384 f=768 ranks=4 dtype=bf16");
  const NamedSchedule named = read_schedules("asynctp/down:flashoverlap", op, machine);
  EXPECT_EQ(named.schedule, parse_schedules("decomposed,gemm=library/down:waves", op, machine));
  EXPECT_THAT(named.reason, AllOf(StartsWith("up: the nearest point to AsyncTP, "),
                                  HasSubstr("; down: the nearest point to FlashOverlap, ")));
  EXPECT_EQ(parse_schedules("flux,tile=64x128", op, machine).products[1],
            parse_schedules("up:flux/down:tiles,order=peer-staggered,tile=64x128", op, machine)
                .products[1]);
  // What a later word takes need not be there.
  EXPECT_EQ(parse_schedules("flashoverlap/up:tiles", op, machine),
            parse_schedules("waves/up:tiles", op, machine));
  EXPECT_THAT(refusal_of("flashoverlap/down:tiles", op, machine),
              StartsWith("flashoverlap has nothing for gathers ahead of a product (up); it has "));
}

// An edge in front of a dense product is no way of rows to experts.
TEST(Systems, BringAProductItsRowsAsTheyBringOthersTheirs) {
  const Machine machine = default_machine(2);
  const Operator op = make_graph(parse_graph("graph own m h f\n"
                                             "input x [m, h] rows\n"
                                             "input w [f, h] rows\n"
                                             "y = gemm x w\n"
                                             "output y rows\n"),
                                 {{"m", 256}, {"h", 256}, {"f", 256}}, 2, DType::bf16);
  const NamedSchedule named = read_schedules("asynctp/y:tiles", op, machine);
  EXPECT_EQ(named.schedule, parse_schedules("decomposed/y:tiles", op, machine));
  EXPECT_THAT(refusal_of("deepep/y:tiles", op, machine),
              StartsWith("deepep has nothing for gathers"));
}

TEST(Systems, OfHalvesSplitRowsThatAreMany) {
  const Machine machine = default_machine(4);
  const auto split = [&](const char* text, int64_t m) {
    const Operator op =
        parse_operator(fmt::format("gemm-ar-norm m={} n=512 k=768 ranks=4 dtype=bf16", m));
    return parse_schedules(text, op, machine).split;
  };
  EXPECT_EQ(split("tokenweave", 1024), 2);
  EXPECT_EQ(split("tokenweave", 1023), 1);
  EXPECT_EQ(split("split=1/tokenweave", 4096), 1);
  EXPECT_EQ(split("split=4/tokenweave", 4096), 4);
  EXPECT_EQ(split("tiles", 4096), 1);
}

// No product is left that goes by the system whose name brought the split.
TEST(Systems, TakeTheirSplitWithThem) {
  const Machine machine = default_machine(4);
  const Operator op = parse_operator("mlp-ar m=4096 h=768 f=1024 ranks=4 dtype=bf16");
  const auto split = [&](const char* text) { return parse_schedules(text, op, machine).split; };
  for (const char* gone : {"tokenweave/tiles", "tokenweave/vllm", "tokenweave/up:tiles/down:tiles",
                           "tokenweave/tiles/down:waves"}) {
    EXPECT_EQ(split(gone), 1) << gone;
  }
  for (const char* left : {"tokenweave", "tiles/tokenweave", "tokenweave/down:tiles",
                           "up:tiles/down:tiles/tokenweave"}) {
    EXPECT_EQ(split(left), 2) << left;
  }
  EXPECT_EQ(split("split=2/tokenweave/tiles"), 2);
}

// Who asks for runs of fewer rows has written no split, which has no such runs.
TEST(Systems, BringNoSplitWhereRunsHaveFewerRows) {
  const Machine machine = default_machine(4);
  const Operator op = parse_operator("gemm-ar m=4096 n=512 k=768 ranks=4 dtype=bf16");
  EXPECT_EQ(read_schedules("tokenweave", op, machine).schedule.split, 2);
  for (const auto& [text, rows] : {std::pair{"tokenweave", RowCount::bucket},
                                   std::pair{"tokenweave,rows=bucket", RowCount::fixed}}) {
    OperatorSchedule schedule = read_schedules(text, op, machine, {}, rows).schedule;
    set_rows(schedule, RowCount::bucket);
    EXPECT_EQ(schedule.split, 1) << text;
    EXPECT_THAT(legal(op, schedule, machine), IsEmpty());
  }
}

TEST(Systems, AreNoOtherWords) {
  std::set<std::string_view> words = {"all", "sweep", kAutoWords[0]};
  for (const Preset& preset : presets()) words.insert(preset.name);
  for (const System& system : systems()) {
    EXPECT_TRUE(words.insert(system.name).second) << system.name;
    EXPECT_EQ(system.name.find_first_of(",/:=; "), std::string_view::npos) << system.name;
    EXPECT_EQ(find_system(system.name), &system);
  }
  EXPECT_EQ(find_system("tiles"), nullptr);
}

}  // namespace
}  // namespace stretto
