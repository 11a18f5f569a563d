// SMs that runs leave to others' kernels: no launch has blocks for them, and auto and the
// simulation go by the rest; in the stub of the driver.
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "lang/lang_kernel.h"
#include "stretto/context.h"
#include "stretto/error.h"
#include "stretto/lower.h"
#include "stretto/schedule.h"
#include "stub_launches.h"

namespace stretto {
namespace {

using testing::HasSubstr;

constexpr int kAll = 132, kFree = 8;
constexpr int64_t kRows = 4096;

const ProductKind kKinds[] = {kAgGemm, kGemmRs, kGemmAr, kGemmA2a, kA2aGemm};

// The most blocks that a rank's kernels may hold at a time: those of a stream follow each other.
int most_blocks(const std::vector<StubLaunch>& launches) {
  std::map<uint64_t, int> most;  // by stream
  for (const StubLaunch& one : launches) {
    most[one.stream] = std::max(most[one.stream], one.blocks);
  }
  int blocks = 0;
  for (const auto& [stream, number] : most) blocks += number;
  return blocks;
}

// Of a run by a schedule.
int blocks_of(Context& context, const Operator& op, const std::string& schedule, RowCount rows) {
  Operation operation(context, op, {.schedule = schedule, .rows = rows});
  const TensorMemory memory(context, operation);
  int most = 0;
  for (int rank = 0; rank < 2; ++rank) {
    stub_launches();
    operation.run(rank, context.stream(rank), op.rows(), memory.of(rank));
    most = std::max(most, most_blocks(stub_launches()));
  }
  operation.finish();
  return most;
}

TEST(FreeSms, AreLeftByEveryLaunch) {
  for (const char* test :
       {"FreeSmsInTheStub.AreLeftByEveryPreset", "FreeSmsInTheStub.AreLeftByAutoAndByExperts",
        "FreeSmsInTheStub.MoreThanThereAreAreRefused", "FreeSmsInTheStub.AreNoPlaceOfAPair"}) {
    EXPECT_EQ(run_inside(in_the_stub("STRETTO_NCCL_PATH=" STRETTO_STUBS "/nccl"), test), 0) << test;
  }
}

TEST(FreeSmsInTheStub, AreLeftByEveryPreset) {
  STRETTO_INSIDE_THE_STUB();
  int full = 0;
  for (const int free : {0, kFree}) {
    Context context(2, {.timeout_s = 1, .free_sms = free});
    for (const ProductKind& kind : kKinds) {
      const Operator op = Segment{kind, kRows, 4096, 4096, 2, DType::bf16};
      for (const Preset& preset : presets()) {
        const Machine machine = default_machine(2);
        if (!legal(op, schedule_of(preset, op, machine), machine).empty()) continue;
        const int blocks = blocks_of(context, op, std::string(preset.name), RowCount::fixed);
        // Where none is to be left free, passes may have more blocks than SMs hold at once.
        if (free > 0) {
          EXPECT_LE(blocks, kAll - free) << to_string(op) << " " << preset.name;
        }
        full += free == 0 && blocks >= kAll;
      }
    }
  }
  EXPECT_GT(full, 10);  // else there was nothing to leave
}

TEST(FreeSmsInTheStub, AreLeftByAutoAndByExperts) {
  STRETTO_INSIDE_THE_STUB();
  Context context(2, {.timeout_s = 1, .free_sms = kFree});
  for (const RowCount rows : {RowCount::fixed, RowCount::bucket}) {
    for (const ProductKind& kind : {kAgGemm, kGemmRs, kGemmAr}) {
      const Operator op = Segment{kind, kRows, 4096, 4096, 2, DType::bf16};
      EXPECT_LE(blocks_of(context, op, "auto", rows), kAll - kFree) << to_string(op);
    }
  }
  const Operator experts =
      make_operator("moe-tp", {{"t", 2048}, {"h", 1024}, {"f", 1024}, {"experts", 8}, {"k", 2}}, 2);
  for (const char* schedule : {"tiles", "library"}) {
    EXPECT_LE(blocks_of(context, experts, schedule, RowCount::fixed), kAll - kFree) << schedule;
  }
  const Operator mlp = make_operator("mlp", {{"m", 2048}, {"h", 1024}, {"f", 2048}}, 2);
  // auto mixes kernels of two streams that events keep apart, which the count would add up.
  EXPECT_LE(blocks_of(context, mlp, "tiles", RowCount::fixed), kAll - kFree);
}

TEST(FreeSmsInTheStub, MoreThanThereAreAreRefused) {
  STRETTO_INSIDE_THE_STUB();
  for (const int wrong : {-1, 67}) {
    try {
      Context(2, {.timeout_s = 1, .free_sms = wrong});
      ADD_FAILURE() << "nothing was refused";
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(),
                  HasSubstr(fmt::format("free_sms={}: of the 132 SMs of NVIDIA H200 0 to 66 can be "
                                        "left to other kernels",
                                        wrong)));
    }
  }
}

// Nor kernels of a caller's own, whose blocks wait for each other.
TEST(FreeSmsOfGrids, AreLeftByKernelsOfTheDeviceLanguage) {
  const cuda::GridLimits limits{256, kAll - kFree, false, kFree};
  EXPECT_NO_THROW(cuda::check_waiting_grid(kAll - kFree, 64, limits));
  try {
    cuda::check_waiting_grid(kAll - kFree + 1, 64, limits);
    ADD_FAILURE() << "nothing was refused";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("with 8 SMs left free a rank has 124, so at most as many"));
  }
}

// A kernel of others on one SM takes the place of a cluster of two.
TEST(FreeSmsInTheStub, AreNoPlaceOfAPair) {
  STRETTO_INSIDE_THE_STUB();
  const Operator op = Segment{kAgGemm, kRows, 4096, 4096, 2, DType::bf16};
  const OperationOptions pairs{.schedule = "tiles,cluster=2", .rows = RowCount::fixed};
  Context all(2, {.timeout_s = 1});
  EXPECT_NO_THROW(Operation(all, op, pairs));
  Context most(2, {.timeout_s = 1, .free_sms = 32});
  try {
    Operation(most, op, pairs);
    ADD_FAILURE() << "nothing was refused";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("with 32 SMs left free: lower it"));
  }
}

}  // namespace
}  // namespace stretto
