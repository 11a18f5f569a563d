// Lowering: Operator + Schedule + Machine -> Plan, by a visible table of steps.
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "stretto/machine.h"
#include "stretto/operator.h"
#include "stretto/plan.h"
#include "stretto/schedule.h"

namespace stretto {

// What the steps pass along. Until place_signals the plan's lanes hold tasks and boundaries only.
struct Draft {
  const Operator op;
  const OperatorSchedule schedule;
  const Machine machine;
  Plan plan;
  // Every instruction once, in an order in which one thread could execute them all: each read comes
  // after the writes it depends on. Lanes list their instructions in this order, so no plan can
  // deadlock; place_signals reads dependences off it as if it were a sequential program.
  std::vector<InstrRef> program;
  // Where the instructions of a segment, for a part of the rows, end in `program`, and whose
  // schedule they have.
  struct Stretch {
    uint32_t end = 0;
    uint32_t product = 0;
  };
  std::vector<Stretch> stretches;
  // place_signals has found that ranks do the same, each with all ranks counted from itself.
  bool ranks_are_alike = false;

  // Whose schedule an instruction of the program has; stages over rows go by the product before.
  const Schedule& schedule_at(uint32_t position) const;
};

struct LowerStep {
  std::string_view name;
  std::string_view why_here;
  void (*run)(Draft& draft);
};
// The steps in their order. A plan is what the last one leaves.
std::span<const LowerStep> lower_steps();

// Throws UsageError with all of legal()'s reasons when there is one.
// `after_step`, when given, sees the draft after each step (dump-after).
Plan lower(const Operator& op, const OperatorSchedule& schedule, const Machine& machine,
           const std::function<void(const LowerStep&, const Draft&)>& after_step = {});

// Steps, in src/lower/, one file each. See lower_steps() for their order.
void place_signals(Draft& draft);

}  // namespace stretto
