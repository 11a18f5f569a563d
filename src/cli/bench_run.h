// Measures strategies of operators on this machine's GPUs: what `bench` shows and `tune` keeps.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/gpus.h"
#include "cli/request.h"
#include "cuda/compiler.h"
#include "fabric/fabric.h"
#include "runtime/operator_bench.h"

namespace stretto::cli {

struct BenchedStrategy {
  Choice choice;  // refused: nothing else is known
  std::optional<double> predicted_us;
  int compute_sms = 0, comm_sms = 0;  // blocks of a rank, each on an SM of its own
  runtime::PlanTimes measured;

  bool timed() const { return choice.refused.empty() && measured.timed(); }
};

struct BenchedOperator {
  Operator op;
  Machine machine;  // that the plans are for
  runtime::LibraryTimes library;
  double link_floor_us = 0;  // the least bytes that leave a GPU, at the machine file's rate
  std::vector<BenchedStrategy> strategies;

  double floor_us() const;  // nothing can be faster: link bytes, or the GEMM alone by cuBLAS
  const BenchedStrategy* fastest() const;  // null when none was timed
};

class BenchRun {
 public:
  // Throws SystemError when there are no GPUs that run plans for so many ranks.
  explicit BenchRun(int ranks);

  int sms() const { return sms_of(*fabric_); }  // of a GPU
  std::string gpu() const { return fabric_->device(fabric_->first_rank()).name(); }
  // Whether this process is the one that speaks for all of a job.
  bool speaks() const { return fabric_->first_rank() == 0; }
  // Collective.
  BenchedOperator run(const Operator& op, const Machine& machine, std::vector<Choice> choices,
                      const runtime::BenchOptions& timing,
                      const std::function<void(double)>& progress = {});

 private:
  std::unique_ptr<fabric::Fabric> fabric_;
  cuda::Compiler compiler_;
};

// Both throw UsageError.
runtime::BenchOptions resolve_timing(const Options& options);
std::string resolve_commit(const Options& options);  // fit to be kept in a tuning file

// "2026-11-21"
std::string today();

}  // namespace stretto::cli
