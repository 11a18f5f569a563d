// Measures strategies of operators on this machine's GPUs: what `bench` shows and `tune` keeps.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/benched_operator.h"
#include "cli/gpus.h"
#include "cli/request.h"
#include "fabric/fabric.h"
#include "gpu/compiler.h"

namespace stretto::cli {

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

}  // namespace stretto::cli
