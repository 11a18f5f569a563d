#include "measure/library_plan.h"

#include "measure/expert_rows.h"
#include "schedule/scheduled_segments.h"
#include "stretto/lower.h"
#include "stretto/schedule.h"
#include "tables/plan_limits.h"

namespace stretto::runtime {
namespace {

// cuBLAS, then NCCL, with a kernel of one pass for what stands between. For pooled look-ups, and
// for products whose rows choose their matrices, there is no call of cuBLAS: they are a kernel of
// ours.
OperatorSchedule library_schedule(const Operator& op, const Machine& machine) {
  OperatorSchedule schedule = schedule_of(find_preset("library"), op, machine);
  const OperatorSchedule ours = schedule_of(find_preset("sequential"), op, machine);
  const std::vector<const OperatorSegment*> products = scheduled_products(op);
  for (size_t i = 0; i < products.size(); ++i) {
    if (!products[i]->product->is_dense()) schedule.products[i] = ours.products[i];
  }
  return schedule;
}

LibraryPlan plan_of(const Operator& op, const OperatorSchedule& schedule, const Machine& machine) {
  LibraryPlan made{nullptr, legal(op, schedule, machine)};
  if (!made.refused.empty()) return made;
  auto plan = std::make_unique<Plan>(lower(op, schedule, machine));
  made.refused = cuda::why_not_on_cuda(*plan);
  if (made.refused.empty()) made.plan = std::move(plan);
  return made;
}

}  // namespace

// Beside experts cuBLAS may not be able to make the other products of a plan.
LibraryPlan library_plan(const Operator& op, const Machine& machine) {
  LibraryPlan made = plan_of(op, library_schedule(op, machine), machine);
  if (made.plan != nullptr || !chooses(op)) return made;
  return plan_of(op, schedule_of(find_preset("sequential"), op, machine), machine);
}

}  // namespace stretto::runtime
