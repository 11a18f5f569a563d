// Plans that are run on this machine's GPUs; tests skip, saying why, where there are too few.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/text.h"
#include "fabric/nccl_api.h"
#include "gpu/device.h"
#include "gpu/dynamic_library.h"
#include "gpu/nvrtc_api.h"
#include "gpu/shared_gpus.h"
#include "launch/rank_program.h"
#include "launch/shared_streams.h"
#include "run/plan_runner.h"
#include "skip.h"
#include "stretto/error.h"
#include "stretto/lower.h"

namespace stretto::runtime {

// Why plans of so many ranks cannot run here; empty when they can.
inline std::string why_not_here(int ranks) {
  if (!cuda::why_no_driver().empty()) return cuda::why_no_driver();
  if (!cuda::why_no_compiler().empty()) return cuda::why_no_compiler();
  if (!fabric::why_no_nccl().empty()) return fabric::why_no_nccl();
  const int needed = (ranks + cuda::ranks_a_gpu() - 1) / cuda::ranks_a_gpu();
  if (cuda::num_devices() < needed) {
    return std::to_string(needed) + " GPUs are needed, " + std::to_string(cuda::num_devices()) +
           " found";
  }
  return cuda::Device(0).arch() == "sm_90a" ? "" : "the GEMM kernel needs Hopper GPUs";
}

// Cases of a suite of tests that only GPUs run: without a driver the first of them, which says why
// it skips. Each of thousands would skip in a process of its own.
template <typename Case>
std::vector<Case> cases_here(std::vector<Case> all) {
  const std::string driver[] = {
      "libcuda.so.1"};  // asked for nothing: that comes with the first test
  if (!cuda::DynamicLibrary::open(driver, {})) all.erase(all.begin() + 1, all.end());
  return all;
}

// One for each number of ranks, for all tests: contexts and communicators take long to make.
inline fabric::Fabric& shared_fabric(int ranks) {
  static std::map<int, std::unique_ptr<fabric::Fabric>> fabrics;
  auto& found = fabrics[ranks];
  if (!found) found = fabric::in_process(ranks);
  return *found;
}

// The default machine, or what ranks that share GPUs have of it.
inline Machine machine_here(int ranks) {
  Machine machine = default_machine(ranks);
  machine.sms = cuda::sms_a_rank(machine.sms, std::min(ranks, cuda::ranks_a_gpu()));
  return machine;
}

inline Plan plan_here(const std::string& op_text, const std::string& schedule) {
  const Segment op = parse_segment(op_text);
  const Machine machine = machine_here(op.ranks);
  return lower(op, parse_schedule(schedule, op, machine), machine);
}

// Why ranks that share GPUs as those here do cannot run this; empty when they can.
inline std::string why_not_shared_here(const Plan& plan) {
  const int each = std::min(plan.ranks(), cuda::ranks_a_gpu());
  return join(cuda::why_not_shared(plan, cuda::programs_of(plan), each), "; ");
}

// The same for a plan of this operator and schedule.
inline std::string why_not_here(const std::string& op_text, const std::string& schedule_text) {
  const Segment op = parse_segment(op_text);
  std::string why = why_not_here(op.ranks);
  if (!why.empty() || cuda::ranks_a_gpu() == 1) return why;
  const Machine machine = machine_here(op.ranks);
  const Schedule schedule = parse_schedule(schedule_text, op, machine);
  why = join(legal(op, schedule, machine), "; ");
  return why.empty() ? why_not_shared_here(lower(op, schedule, machine)) : why;
}

inline const cuda::Compiler& shared_compiler() {
  static const cuda::Compiler compiler;
  return compiler;
}

// What a run says, within so long, that `enqueue` begins on each rank; the last ones do not come.
inline std::optional<RunFault> run_fault(PlanRunner& runner,
                                         const std::function<void(int rank)>& enqueue,
                                         int missing = 0,
                                         std::chrono::nanoseconds most = std::chrono::seconds(4)) {
  const auto start = std::chrono::steady_clock::now();
  const int ranks = runner.plan().ranks();
  std::optional<RunFault> fault;
  try {
    for (int rank = 0; rank < ranks - missing; ++rank) {
      shared_fabric(ranks).device(rank).make_current();
      enqueue(rank);
    }
    runner.finish();
  } catch (const RunFault& caught) {
    fault = caught;
  } catch (const SystemError& caught) {
    fault.emplace(caught.what());
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, most);
  return fault;
}

// Its text.
inline std::string error_of(PlanRunner& runner, const std::function<void(int rank)>& enqueue,
                            int missing = 0,
                            std::chrono::nanoseconds most = std::chrono::seconds(4)) {
  const std::optional<RunFault> fault = run_fault(runner, enqueue, missing, most);
  return fault ? fault->what() : "";
}

// The same on the runner's own streams; rank 0 begins so much later.
inline std::string error_of(PlanRunner& runner, uint64_t rank_0_delay_ns = 0, int missing = 0,
                            std::chrono::nanoseconds most = std::chrono::seconds(4)) {
  const auto enqueue = [&](int rank) {
    if (rank == 0 && rank_0_delay_ns > 0) runner.delay(rank, rank_0_delay_ns);
    runner.enqueue(rank);
  };
  return error_of(runner, enqueue, missing, most);
}

// Tests that break runs of two ranks.
class BrokenRunsOnGpus : public testing::Test {
 protected:
  static constexpr int kRanks = 2;

  void SetUp() override {
    if (const std::string why = why_not_here(kRanks); !why.empty()) STRETTO_SKIP(why);
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
