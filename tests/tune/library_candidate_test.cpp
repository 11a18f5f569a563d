// cuBLAS and NCCL are measured like any other schedule, so that auto can take them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stretto/tune.h"

namespace stretto {
namespace {

TEST(SweepCandidates, TheLibraryPathIsAlwaysAmongThem) {
  for (const char* text : {"ag-gemm m=16 n=2560 k=8192 ranks=2 dtype=bf16",
                           "gemm-rs m=1000 n=5120 k=9216 ranks=2 dtype=bf16",
                           "gemm-ar m=128 n=4096 k=3584 ranks=4 dtype=fp16"}) {
    const Segment op = parse_segment(text);
    const Machine machine = default_machine(op.ranks);
    std::vector<Schedule> schedules;
    for (const Candidate& candidate : sweep_candidates(op, machine, 0)) {
      schedules.push_back(candidate.schedule);
    }
    for (const char* preset : {"sequential", "library"}) {
      EXPECT_THAT(schedules, testing::Contains(find_preset(preset).make(op, machine))) << text;
    }
  }
}

}  // namespace
}  // namespace stretto
