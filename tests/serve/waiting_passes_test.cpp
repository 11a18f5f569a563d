// Passes that await peers hold every SM while they do: not where a peer's kernels need the same
// ones. In the stub of the driver.
#include <algorithm>
#include <string>

#include "gpu/shared_gpus.h"
#include "stretto/context.h"
#include "stretto/lower.h"
#include "stub_launches.h"

namespace stretto {
namespace {

// Launches of a run of this operator by every rank, and the most blocks of one.
struct Launches {
  int passes = 0, movers = 0, most_blocks = 0;
};
Launches launches_of(const std::string& op) {
  Context context(2, {.timeout_s = 1});
  Operation operation(context, parse_operator(op), {.schedule = "tiles", .rows = RowCount::fixed});
  const TensorMemory memory(context, operation);
  Launches made;
  stub_launches();
  for (int rank = 0; rank < 2; ++rank) {
    operation.run(rank, context.stream(rank), parse_operator(op).rows(), memory.of(rank));
  }
  for (const StubLaunch& one : stub_launches()) {
    made.passes += one.kernel == "stretto_pass";
    made.movers += one.kernel == "stretto_mover";
    made.most_blocks = std::max(made.most_blocks, one.blocks);
  }
  operation.finish();
  return made;
}

constexpr const char* kAwaits = "gemm-ar-norm m=4096 n=4096 k=4096 ranks=2 dtype=bf16";
constexpr const char* kAwaitsNobody = "gemm-rs-norm m=4096 n=4096 k=4096 ranks=2 dtype=bf16";

TEST(WaitingPasses, LeaveSmsToRanksThatShareThem) {
  const std::string test = "WaitingPassesInTheStub.AreOfRanksAlone";
  EXPECT_EQ(run_inside(in_the_stub(), test), 0);
  EXPECT_EQ(run_inside(in_the_stub("STRETTO_RANKS_A_GPU=2"), test), 0);
}

TEST(WaitingPassesInTheStub, AreOfRanksAlone) {
  STRETTO_INSIDE_THE_STUB();
  const bool shares = cuda::ranks_a_gpu() > 1;
  const Launches awaiting = launches_of(kAwaits), others = launches_of(kAwaitsNobody);
  EXPECT_EQ(awaiting.passes, shares ? 0 : 2);
  EXPECT_EQ(awaiting.movers, shares ? 2 : 0);
  EXPECT_LE(awaiting.most_blocks, shares ? 66 : 264);
  EXPECT_EQ(others.passes, 2);
}

}  // namespace
}  // namespace stretto
