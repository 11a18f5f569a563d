#include <fmt/format.h>

#include <string_view>
#include <unordered_set>

#include "plan/faults.h"
#include "stretto/error.h"
#include "stretto/schedule.h"
#include "stretto/serve.h"

namespace stretto {
namespace {

void require(bool good, const std::string& what) {
  if (!good) throw UsageError(what);
}

template <typename Declarations>
void check_declarations(const Declarations& declarations, std::string_view what) {
  require(declarations.size() <= UINT16_MAX,
          fmt::format("expected at most {} {}, found {}", UINT16_MAX, what, declarations.size()));
  std::unordered_set<std::string_view> names;
  for (const auto& declaration : declarations) {
    const std::string fault = fault_in(declaration);
    require(fault.empty(), fault);
    require(names.insert(declaration.name).second,
            fmt::format("expected {} of different names, found {} twice", what, declaration.name));
  }
}

}  // namespace

void validate(const Plan& plan) {
  validate(plan.op);
  require(is_schedule_text(plan.schedule, plan.op), "expected a schedule of one printable line");
  require(plan.run_of == 0 || plan.run_of > plan.op.rows(),
          fmt::format("expected a run of fewer rows than its plan's, found {} of {}",
                      plan.op.rows(), plan.run_of));
  require(plan.sms >= 1, fmt::format("expected at least one SM, found {}", plan.sms));
  const std::string library_fault = fault_in_library(plan);
  require(library_fault.empty(), library_fault);
  require(
      plan.cluster >= 1 && plan.cluster <= kMostClustered,
      fmt::format("expected clusters of 1 or {} lanes, found {}", kMostClustered, plan.cluster));
  check_declarations(plan.partitions, "partitions");
  require(plan.partitions.size() <= kMostPartitions,
          fmt::format("expected at most {} partitions, found {}", kMostPartitions,
                      plan.partitions.size()));
  check_declarations(plan.buffers, "buffers");
  for (const Buffer& buffer : plan.buffers) {
    const std::string fault = fault_in(plan, buffer);
    require(fault.empty(), fault);
  }
  check_declarations(plan.signals, "signal arrays");
  const Lane* previous = nullptr;
  for (const Lane& lane : plan.lanes) {
    const std::string lane_fault = fault_in(plan, previous, lane);
    require(lane_fault.empty(), lane_fault);
    previous = &lane;
    for (size_t i = 0; i < lane.instrs.size(); ++i) {
      const std::string fault = fault_in(plan, lane, lane.instrs[i]);
      if (fault.empty()) continue;
      throw UsageError(fmt::format("{} instruction {} ({}): {}", describe(lane), i,
                                   to_string(lane.instrs[i].op), fault));
    }
  }
  if (plan.run_of > 0) {  // asks of operands, too
    const std::string why = why_no_run(plan);
    require(why.empty(), fmt::format("expected a plan of its own, without run-of {}, since no run "
                                     "of fewer rows is as this one: {}",
                                     plan.run_of, why));
  }
  const PlanFault fault = fault_in_lanes(plan);
  if (fault.what.empty()) return;
  if (!fault.instr) throw UsageError(fault.what);
  const Lane& lane = plan.lanes[*fault.lane];
  throw UsageError(fmt::format("{} instruction {} ({}): {}", describe(lane), *fault.instr,
                               print(plan, lane, lane.instrs[*fault.instr]), fault.what));
}

PlanFault fault_in_lanes(const Plan& plan) {
  PlanFault fault = fault_in_fused(plan);
  return fault.what.empty() ? fault_in_clusters(plan) : fault;
}

}  // namespace stretto
