// Plans that are run on this machine's GPUs; tests skip, saying why, where there are too few.
#pragma once

#include <gtest/gtest.h>

#include <iostream>
#include <map>
#include <memory>
#include <string>

#include "cuda/device.h"
#include "cuda/nvrtc_api.h"
#include "fabric/nccl_api.h"
#include "runtime/plan_runner.h"
#include "stretto/lower.h"

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

inline Plan plan_of(const std::string& op_text, const std::string& schedule) {
  const Operator op = parse_operator(op_text);
  const Machine machine = default_machine(op.ranks);
  return lower(op, parse_schedule(schedule, op, machine), machine);
}

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
