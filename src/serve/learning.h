// What making operations measures where `auto` is not sure, and what earlier ones have measured.
//
// Rank 0's process decides for all, by its files and its budget: it alone chooses and simulates,
// reads and writes the file of what was learnt, and tells the others what to measure and what to
// take. Times are those of the slowest rank, which all processes know alike.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "fabric/fabric.h"
#include "gpu/compiler.h"
#include "measure/quick_times.h"
#include "serve/verdict.h"
#include "streams/kernel_store.h"
#include "stretto/machine.h"
#include "stretto/tune.h"
#include "tune/learnt.h"
#include "tune/predict.h"

namespace stretto {

// A text like STRETTO_MEASURE_MS, or nothing. Throws UsageError.
std::optional<double> measure_ms_of(std::string_view text);

class Learning {
 public:
  // All must outlive it.
  struct Of {
    fabric::Fabric& fabric;
    const cuda::Compiler& compiler;
    runtime::KernelStore& kernels;
    const Machine& machine;
    const Tuning& tuning;
    uint64_t timeout_ns;
    // Why this process must not wait for its GPUs now; empty: it may.
    std::function<std::string()> why_not_now;
  };
  // `budget_ms`: where an operation says nothing.
  Learning(const Of& of, double budget_ms);

  // The budget of what is made with this option. Throws UsageError.
  double budget_ms(const std::optional<double>& asked) const;
  // Collective. The fastest measured on the operator, by `tune` or by operations, or now, where the
  // budget is not 0; else what `auto` takes by what is near. What is measured has fixed rows, or
  // is one product.
  AutoSchedules choose(const Operator& asked, RowCount rows, double budget_ms);
  // Leaves out what SMs that are left to others' kernels do not serve.
  void as_context_runs(OperatorSchedule& schedule) const;

 private:
  // Of rank 0's process.
  Verdict verdict_on(const Operator& op, RowCount rows, double budget_ms);
  Verdict verdict_of(const runtime::QuickTimes& times, const Operator& op, RowCount rows);
  std::optional<Verdict::Chosen> known(const Operator& op, RowCount rows);
  bool is_swept(const Operator& op, RowCount rows) const;
  Sureness sureness_of(const TunedSchedules& learnt, const Operator& op, RowCount rows);
  std::vector<OperatorSchedule> worth_measuring(const Operator& op, RowCount rows);
  // Without what was learnt; simulations are shared by all operations.
  AutoSchedules unlearnt(const Operator& op, RowCount rows);
  // Collective.
  AutoSchedules taken(const Verdict::Chosen& chosen, const std::string& more, const Operator& op,
                      RowCount rows);
  AutoSchedules measured(const Operator& op, RowCount rows, const Verdict& verdict);
  // Rank 0's process does.
  bool decides() const { return of_.fabric.first_rank() == 0; }

  const Of of_;
  const double budget_ms_;
  std::optional<LearntFile> file_;  // from the first choice on
  Predictions predictions_;
};

}  // namespace stretto
