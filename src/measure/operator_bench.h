// Times plans of one operator, the library path and its parts: in turns, on the same tensors.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fabric/fabric.h"
#include "gpu/compiler.h"
#include "measure/run_parts.h"
#include "measure/spread.h"
#include "run/plan_runner.h"
#include "stretto/plan.h"

namespace stretto::runtime {

struct BenchOptions {
  int rounds = 11;
  // Runs in a graph, back to back. Their number is even: see PlanRunner::runs_per_graph().
  int runs_per_graph = 10;
  // A turn is two launches of the graph, or as many as take so long; the second half is timed. A
  // GPU at its power limit runs on for 40 to 60 ms before it slows down.
  double turn_us = 0;
  bool cold = true;      // single runs from a cold L2 cache too
  bool parts = false;    // the fastest plan runs again, to tell what its time goes to
  Routing routing = {};  // where rows choose experts
};

struct PathTimes {
  Spread warm;                 // back to back
  std::optional<Spread> cold;  // nothing where a graph cannot hold a single run
};

// cuBLAS's products alone, one after the other, where anything is multiplied (LibraryPath); NCCL's
// collectives alone, where there are any; and all of the operator, where it is verified like any
// plan of it.
struct LibraryTimes {
  std::optional<PathTimes> gemm, collective, sequential;
  std::string problem;  // why `sequential` is missing
};

struct PlanTimes {
  std::string refused;  // why these GPUs, or cuBLAS, cannot run it: then nothing else is known
  std::string problem;  // a wait that did not end, or a wrong result: then there are no times
  std::vector<NotProposed> not_proposed;  // by cuBLAS: its first algorithm was timed instead
  double error = 0;                       // relative, of the worst run and rank
  PathTimes times;
  std::optional<RunParts> parts;  // of the fastest, where they were asked for

  bool timed() const { return refused.empty() && problem.empty(); }
};

struct BenchTimes {
  LibraryTimes library;
  std::vector<PlanTimes> plans;  // as they were given
};

struct PlanToTime {
  const Plan* plan;
  IfNotProposed if_not_proposed = IfNotProposed::refuse;
  int most_proposals = kMostAlgorithms;
};

// Collective. All plans are of `op` and fit in memory together. `library` stands for cuBLAS, then
// NCCL, where their calls alone do not make the operator; null: nothing does. `progress` hears the
// share that is done, 0..1.
BenchTimes bench_operator(const Operator& op, const Plan* library,
                          std::span<const PlanToTime> plans, fabric::Fabric& fabric,
                          const cuda::Compiler& compiler, const BenchOptions& options,
                          const std::function<void(double)>& progress = {});

}  // namespace stretto::runtime
