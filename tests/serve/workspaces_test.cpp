// A workspace that operations of a context share: how large it is, what refuses, and that runs of
// different plans on it have a fence between them; in the stub of the driver.
#include <gmock/gmock.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "problem_of.h"
#include "run/plan_memory.h"
#include "stretto/context.h"
#include "stretto/error.h"
#include "stretto/lower.h"
#include "stub_launches.h"

namespace stretto {
namespace {

using testing::HasSubstr;

constexpr int64_t kFew = 1024, kMany = 4096;
const OperationOptions kTiles{.schedule = "tiles", .rows = RowCount::fixed};

Segment product(int64_t rows) { return {kGemmRs, rows, 1024, 1024, 2, DType::bf16}; }

size_t bytes_of(int64_t rows) {
  const Machine machine = default_machine(2);
  return runtime::bytes_between_ranks(
      lower(product(rows), find_preset("tiles").make(product(rows), machine), machine));
}

void run_on_both(const Context& context, Operation& operation, const TensorMemory& memory,
                 int64_t rows) {
  for (int rank = 0; rank < 2; ++rank) {
    operation.run(rank, context.stream(rank), rows, memory.of(rank));
  }
}

TEST(Workspaces, OfAllOperations) {
  for (const char* test : {"WorkspaceInTheStub.GrowsWherePlansNeedMore",
                           "WorkspaceInTheStub.OfAFixedSizeRefusesLargerPlans",
                           "WorkspaceInTheStub.HasAFenceBetweenOperationsOnTheSameBytes",
                           "WorkspaceInTheStub.TellsAllOfARunThatStoodForAFenceAndFailed"}) {
    EXPECT_EQ(run_inside(in_the_stub(), test), 0) << test;
  }
}

TEST(WorkspaceInTheStub, GrowsWherePlansNeedMore) {
  STRETTO_INSIDE_THE_STUB();
  Context context(2, {.timeout_s = 1, .workspace_grows = true});
  EXPECT_EQ(context.workspace_bytes(), 0u);
  Operation few(context, product(kFew), kTiles);
  EXPECT_EQ(context.workspace_bytes(), 2 * bytes_of(kFew));
  const TensorMemory memory(context, few);
  run_on_both(context, few, memory, kFew);
  Operation many(context, product(kMany), kTiles);
  EXPECT_EQ(context.workspace_bytes(), 2 * (bytes_of(kFew) + bytes_of(kMany)));
  run_on_both(context, few, memory, kFew);
  Operation as_many(context, product(kMany), kTiles);
  Operation fewer(context, product(kFew / 2), kTiles);
  EXPECT_EQ(context.workspace_bytes(), 2 * (bytes_of(kFew) + bytes_of(kMany)));
  EXPECT_EQ(fewer.workspace_bytes(), context.workspace_bytes());
  few.finish();
}

TEST(WorkspaceInTheStub, OfAFixedSizeRefusesLargerPlans) {
  STRETTO_INSIDE_THE_STUB();
  const size_t size = bytes_of(kFew);
  Context context(2, {.timeout_s = 1, .workspace_bytes = size});
  Operation few(context, product(kFew), kTiles);
  try {
    Operation(context, product(kMany), kTiles);
    ADD_FAILURE() << "nothing was refused";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr(fmt::format("a plan needs {} bytes between ranks, and the context's "
                                      "workspace has {}: make it larger",
                                      bytes_of(kMany), size)));
  }
  EXPECT_EQ(context.workspace_bytes(), size);
}

// The kernel of a fence has a block, those of runs have many.
int num_fences() {
  int fences = 0;
  for (const StubLaunch& one : stub_launches())
    fences += one.kernel == "stretto_mover" && one.blocks == 1;
  return fences;
}

// In turns, by a workspace of the context's or each by its own: where plans lie side by side, as in
// one that grows, a run of the one is a fence for the other's.
TEST(WorkspaceInTheStub, HasAFenceBetweenOperationsOnTheSameBytes) {
  STRETTO_INSIDE_THE_STUB();
  const auto expect_fences = [](const ContextOptions& options, int expected) {
    Context context(2, options);
    Operation one(context, product(kFew), kTiles), other(context, product(kMany), kTiles);
    const TensorMemory of_one(context, one), of_other(context, other);
    num_fences();
    run_on_both(context, one, of_one, kFew);
    run_on_both(context, one, of_one, kFew);
    EXPECT_EQ(num_fences(), 0);
    run_on_both(context, other, of_other, kMany);
    EXPECT_EQ(num_fences(), expected);
    run_on_both(context, one, of_one, kFew);
    EXPECT_EQ(num_fences(), expected);
  };
  const size_t few = bytes_of(kFew), many = bytes_of(kMany);
  expect_fences({.timeout_s = 1}, 0);
  expect_fences({.timeout_s = 1, .workspace_grows = true}, 0);
  expect_fences({.timeout_s = 1, .workspace_bytes = few + many}, 0);
  expect_fences({.timeout_s = 1, .workspace_bytes = many}, 2);
}

TEST(WorkspaceInTheStub, TellsAllOfARunThatStoodForAFenceAndFailed) {
  STRETTO_INSIDE_THE_STUB();
  for (const bool is_shared : {true, false}) {
    const testing::Matcher<std::string> is_told =
        is_shared
            ? testing::Matcher<std::string>(HasSubstr("a run of another operation on the same "))
            : testing::Matcher<std::string>("");
    Context context(2, {.timeout_s = 1, .workspace_grows = is_shared});
    // Whose tiles await rows.
    Operation failed(context, Segment{kAgGemm, kFew, 1024, 1024, 2, DType::bf16}, kTiles);
    Operation behind(context, product(kMany), kTiles);
    const TensorMemory of_failed(context, failed), of_behind(context, behind);
    failed.run(0, context.stream(0), kFew, of_failed.of(0));
    setenv("STUB_EXPIRES", "1", 1);
    failed.run(1, context.stream(1), kFew, of_failed.of(1));
    unsetenv("STUB_EXPIRES");
    run_on_both(context, behind, of_behind, kMany);
    EXPECT_THAT(behind.error(), is_told);
    EXPECT_THAT(problem_of(behind), is_told);
    EXPECT_THAT(problem_of(failed), HasSubstr("waited 1000 ms"));
    // Where it is finished first, the other has yet to hear of it.
    EXPECT_THAT(problem_of(behind), is_told);
    for (Operation* operation : {&failed, &behind}) {
      EXPECT_EQ(operation->error(), "");
      EXPECT_EQ(problem_of(*operation), "");
    }
  }
}

}  // namespace
}  // namespace stretto
