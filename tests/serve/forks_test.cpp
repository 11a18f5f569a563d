// A fork of a process that opened a context has no rank: it is told so, and takes nothing away from
// the first process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>

#include "inside.h"
#include "stretto/context.h"
#include "stretto/error.h"
#include "stretto/kernels.h"
#include "stretto/segment.h"

namespace stretto {
namespace {

using testing::HasSubstr;

const Segment kProduct{kGemmRs, 1024, 5376, 6144, 2, DType::bf16};
const OperationOptions kTiles{.schedule = "tiles", .rows = RowCount::fixed};  // without a library

template <typename Work>
void expect_refused(const Work& work) {
  try {
    work();
    ADD_FAILURE() << "nothing was refused";
  } catch (const SystemError& error) {
    EXPECT_THAT(error.what(), HasSubstr("this process was forked from the one that opened"));
  }
}

// Ends what the fork has of it too: a process that goes on does so when it leaves its functions.
void use_in_fork(std::unique_ptr<Context> context, std::unique_ptr<Operation> operation,
                 std::unique_ptr<SymmetricHeap> heap) {
  expect_refused([&] { operation->run(0, nullptr, 1024, {}); });
  expect_refused([&] { operation->prepare(1024); });
  expect_refused([&] { operation->finish(); });
  expect_refused([&] { Operation(*context, kProduct, kTiles); });
  expect_refused([&] { context->allocate(0, 16); });
  expect_refused([&] { context->allocate_shared(16); });
  expect_refused([&] { context->make_current(0); });
  expect_refused([&] { context->stream(0); });
  expect_refused([&] { heap->finish(); });
  expect_refused([&] { heap->allocate("x", 16, 0); });
  expect_refused([&] { SymmetricHeap(*context, 1 << 20, 1, 1); });
  EXPECT_EQ(operation->error(), "");
  EXPECT_EQ(context->ranks(), 2);
}

TEST(Forks, HaveNoRank) {
  const std::string stub = fmt::format(
      "LD_LIBRARY_PATH={0}/driver:{0}/nvrtc:$LD_LIBRARY_PATH STRETTO_CACHE_PATH=/nowhere "
      "STRETTO_MEASURE_MS=0 STUB_GPUS='NVIDIA H200:132:9.0;NVIDIA H200:132:9.0'",
      STRETTO_STUBS);
  EXPECT_EQ(run_inside(stub, "ForkInTheStub.HasNoRank"), 0);
}

TEST(ForkInTheStub, HasNoRank) {
  if (is_outside()) GTEST_SKIP() << "a part of Forks";
  auto context = std::make_unique<Context>(2, 1);
  auto operation = std::make_unique<Operation>(*context, kProduct, kTiles);
  auto heap = std::make_unique<SymmetricHeap>(*context, 1 << 20, 1, 1);
  const pid_t fork_pid = fork();
  ASSERT_GE(fork_pid, 0);
  if (fork_pid == 0) {
    use_in_fork(std::move(context), std::move(operation), std::move(heap));
    // A fork may open a context of its own.
    const Context other(2, 1);
    other.make_current(1);
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(fork_pid, &status, 0), fork_pid);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  operation->prepare(1024);
  operation->finish();
}

}  // namespace
}  // namespace stretto
