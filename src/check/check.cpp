#include "stretto/check.h"

#include <algorithm>

#include "check/agreement.h"
#include "check/chosen_rows.h"
#include "check/counters.h"
#include "check/early.h"
#include "check/execution.h"
#include "check/findings.h"
#include "check/instr_index.h"
#include "check/memory.h"
#include "check/output.h"
#include "check/program.h"
#include "check/regions.h"
#include "check/residency.h"
#include "check/stuck.h"
#include "stretto/error.h"

namespace stretto {
namespace {

// Bounds memory for hostile files; a plan of 64 ranks and a million tasks stays far below.
constexpr size_t kMaxSteps = size_t{1} << 26;

// Reuse is seen between a run and the one that uses the same copies and counters again.
int runs_to_unroll(const Plan& plan) {
  int distance = 1;
  for (const Buffer& buffer : plan.buffers) distance = std::max<int>(distance, buffer.copies);
  for (const SignalArray& array : plan.signals) distance = std::max<int>(distance, array.copies);
  for (const Lane& lane : plan.lanes) {
    for (const Instr& instr : lane.instrs) {
      if (instr.op == Opcode::wait) distance = std::max<int>(distance, instr.lag);
    }
  }
  return distance + 1;
}

void count(const Plan& plan, CheckReport& report) {
  for (const Lane& lane : plan.lanes) {
    for (const Instr& instr : lane.instrs) {
      if (instr.is_task()) ++report.tasks;
      if (instr.op == Opcode::wait) ++report.waits;
      if (instr.op == Opcode::notify) ++report.notifies;
    }
  }
}

// What ranks enqueue keeps to the plan, which has been proved; otherwise why that was not asked.
std::string why_not_proved(const Plan& plan, const CheckOptions& options,
                           const checker::InstrIndex& index, const checker::Counters& counters,
                           checker::Findings& findings) {
  if (options.fragment) return "it is a part of a plan";
  if (plan.run_of > 0 && options.has_whole_plan) {
    return "what ranks enqueue for it is the program of the plan for " +
           std::to_string(plan.run_of) + " rows, which is proved with that plan alone";
  }
  if (!findings.empty()) return "the plan itself has faults";
  return checker::check_programs(plan, index, counters, findings);
}

}  // namespace

std::string_view to_string(DiagnosticKind kind) {
  switch (kind) {
#define STRETTO_CASE(name, text, meaning) \
  case DiagnosticKind::name:              \
    return text;
    STRETTO_DIAGNOSTICS(STRETTO_CASE)
#undef STRETTO_CASE
  }
  return "unknown";
}

CheckReport check(const Plan& plan, const CheckOptions& options) {
  validate(plan);
  CheckReport report;
  count(plan, report);
  report.epochs = runs_to_unroll(plan);
  if (plan.num_instrs() * static_cast<size_t>(report.epochs) > kMaxSteps) {
    throw UsageError("the plan is too large to check: " + std::to_string(plan.num_instrs()) +
                     " instructions over " + std::to_string(report.epochs) + " runs");
  }

  checker::Findings findings(options.max_diagnostics);
  if (!options.fragment) {
    checker::check_inputs(plan, findings);
    checker::check_output(plan, findings);
  }
  checker::check_regions(plan, findings);
  checker::check_chosen_rows(plan, options.fragment, findings);
  const bool ranks_agree = checker::check_agreement(plan, findings);
  const checker::InstrIndex index(plan);
  const checker::Counters counters(plan, index);
  checker::check_thresholds(plan, index, counters, findings);
  checker::check_residency(plan, index, counters, plan.sms, findings);
  if (ranks_agree) {
    checker::Execution execution(plan, index, counters, report.epochs);
    execution.run();
    if (execution.finished()) {
      checker::check_early_thresholds(plan, index, counters, execution, findings);
      report.pairs_proved = checker::check_memory(plan, index, execution, findings);
    } else {
      // What is ordered with what is unknown past the point where the lanes got stuck.
      checker::check_stuck(plan, index, counters, execution, findings);
      STRETTO_ASSERT(!findings.empty(), "a plan is stuck for no reason");
    }
  }
  report.no_program = why_not_proved(plan, options, index, counters, findings);
  findings.give(report);
  return report;
}

std::vector<Diagnostic> why_not_resident(const Plan& plan, int sms) {
  if (checker::all_fit(plan, sms)) return {};
  const checker::InstrIndex index(plan);
  const checker::Counters counters(plan, index);
  checker::Findings findings(static_cast<size_t>(plan.ranks()));
  checker::check_residency(plan, index, counters, sms, findings);
  CheckReport report;
  findings.give(report);
  return std::move(report.diagnostics);
}

}  // namespace stretto
