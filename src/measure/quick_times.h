// Times a few schedules of an operator as its callers will run them, within a budget: what making
// an operation does where `auto` is not sure.
//
// No plan is verified here, and turns are short, so a GPU has not slowed down to its power limit;
// `stretto tune` does both.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "fabric/fabric.h"
#include "gpu/compiler.h"
#include "streams/kernel_store.h"
#include "stretto/machine.h"
#include "stretto/tune.h"

namespace stretto::runtime {

struct QuickOptions {
  double budget_ms = 100;  // of runs; choosing and making plans are besides, see make_ms()
  double chosen_ms = 0;    // what choosing what to time has taken
  uint64_t timeout_ns = 2'000'000'000;

  // Of the slowest process, with what choosing took: no further plan is made behind so much time,
  // but for the first two.
  double make_ms() const { return 3 * budget_ms; }
  // Whether kernels are compiled that nobody has compiled before, each in a second or more.
  bool compiles() const { return budget_ms >= 2000; }
};

struct QuickTimes {
  std::vector<Measured> measured;  // the fastest first; of those that ran
  double library_us = 0;           // of cuBLAS and NCCL, where that is among them; else 0
  double chosen_ms = 0, make_ms = 0, run_ms = 0;  // of the slowest process
  int rounds = 0;
  // Of the schedules.
  size_t not_compiled = 0, not_reached = 0, no_room = 0, refused = 0, failed = 0;
  std::string problem;  // of the last that failed
};

// Collective, with the same schedules on all processes; each has fixed rows, or, of one product,
// serves a bucket, as it says. The first two are made whatever time it takes. Of the times of a
// turn the slowest rank's counts, so all processes know the same. What fails takes no further part,
// and who has lost gives its memory back. Of the GPU memory that is free, the tensors take at most
// half, and all plans together half of the rest: those take turns on one workspace. Throws
// SystemError where a process does not come, or there is no memory for tensors.
QuickTimes quick_times(const Operator& op, const Machine& machine,
                       std::span<const OperatorSchedule> schedules, fabric::Fabric& fabric,
                       const cuda::Compiler& compiler, KernelStore& kernels,
                       const QuickOptions& options);

// "5 in 83 ms of runs, chosen in 40 ms and made in 120, 2 left out, whose kernels nobody has
// compiled"
std::string in_words(const QuickTimes& times);

}  // namespace stretto::runtime
