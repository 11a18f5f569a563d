// Plans that are run on this machine's GPUs; tests skip, saying why, where there are too few.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <iostream>
#include <map>
#include <memory>
#include <string>

#include "cuda/device.h"
#include "cuda/nvrtc_api.h"
#include "fabric/nccl_api.h"
#include "lower/plan_of.h"
#include "runtime/plan_runner.h"
#include "stretto/error.h"

namespace stretto::runtime {

#define STRETTO_SKIP(reason)                    \
  do {                                          \
    std::cout << "[SKIP] " << (reason) << "\n"; \
    GTEST_SKIP() << (reason);                   \
  } while (false)

// Why plans of so many ranks cannot run here; empty when they can.
inline std::string why_not_here(int ranks) {
  if (!cuda::why_no_driver().empty()) return cuda::why_no_driver();
  if (!cuda::why_no_compiler().empty()) return cuda::why_no_compiler();
  if (!fabric::why_no_nccl().empty()) return fabric::why_no_nccl();
  if (cuda::num_devices() < ranks) {
    return std::to_string(ranks) + " GPUs are needed, " + std::to_string(cuda::num_devices()) +
           " found";
  }
  return cuda::Device(0).arch() == "sm_90a" ? "" : "the GEMM kernel needs Hopper GPUs";
}

// One for each number of ranks, for all tests: contexts and communicators take long to make.
inline fabric::Fabric& shared_fabric(int ranks) {
  static std::map<int, std::unique_ptr<fabric::Fabric>> fabrics;
  auto& found = fabrics[ranks];
  if (!found) found = fabric::in_process(ranks);
  return *found;
}

inline const cuda::Compiler& shared_compiler() {
  static const cuda::Compiler compiler;
  return compiler;
}

// Tests that break runs on two GPUs.
class BrokenRunsOnGpus : public testing::Test {
 protected:
  static constexpr int kRanks = 2;

  void SetUp() override {
    if (const std::string why = why_not_here(kRanks); !why.empty()) STRETTO_SKIP(why);
  }

  // What a run of all ranks says, soon; rank 0 begins so much later.
  static std::string error_of(PlanRunner& runner, uint64_t rank_0_delay_ns = 0) {
    const auto start = std::chrono::steady_clock::now();
    std::string error;
    try {
      for (int rank = 0; rank < kRanks; ++rank) {
        shared_fabric(kRanks).device(rank).make_current();
        if (rank == 0 && rank_0_delay_ns > 0) runner.delay(rank, rank_0_delay_ns);
        runner.enqueue(rank);
      }
      runner.finish();
    } catch (const SystemError& caught) {
      error = caught.what();
    }
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(4));
    return error;
  }
};

// Removes the first notify of `signal` for `to` from a lane; returns the lane's description.
inline std::string drop_notify(Plan& plan, const std::string& signal, int to, LaneKind kind) {
  for (Lane& lane : plan.lanes) {
    for (size_t i = 0; i < lane.instrs.size(); ++i) {
      const Instr& instr = lane.instrs[i];
      if (lane.kind != kind || instr.op != Opcode::notify || instr.rank != to ||
          describe(plan, instr.signal) != signal) {
        continue;
      }
      lane.instrs.erase(lane.instrs.begin() + static_cast<std::ptrdiff_t>(i));
      return describe(lane);
    }
  }
  ADD_FAILURE() << "no lane notifies " << signal;
  return "";
}

}  // namespace stretto::runtime
