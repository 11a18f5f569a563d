// say_libraries: which kernels a library or the kernel of few rows multiplies, as each product's
// schedule has it.
#include <algorithm>

#include "lower/lowering.h"
#include "plan/tile_task.h"
#include "stretto/error.h"

namespace stretto {
namespace {

bool has_no_tiles(const Schedule& schedule) { return schedule.gemm != GemmBy::tiles; }
bool has_few_rows(const Schedule& schedule) { return schedule.gemm == GemmBy::few_rows; }

bool are_alike(const OperatorSchedule& schedule) {
  const Schedule& first = schedule.products.front();
  return std::all_of(schedule.products.begin(), schedule.products.end(), [&](const Schedule& one) {
    return one.gemm == first.gemm && one.algorithm == first.algorithm;
  });
}

// Products never share a kernel: a boundary stands between their tasks.
std::vector<LibraryKernel> find_kernels(const Draft& draft) {
  std::vector<const Schedule*> found;                   // by the number of boundaries before it
  std::vector<size_t> passed(draft.plan.lanes.size());  // boundaries, by lane
  for (uint32_t at = 0; at < draft.program.size(); ++at) {
    const InstrRef& ref = draft.program[at];
    const Instr& instr = draft.plan.lanes[ref.lane].instrs[ref.pos];
    if (instr.op == Opcode::boundary) ++passed[ref.lane];
    if (!is_product(instr.op)) continue;
    const Schedule& schedule = draft.schedule_at(at);
    const size_t behind = passed[ref.lane];
    if (found.size() <= behind) found.resize(behind + 1);
    if (found[behind] == nullptr) found[behind] = &schedule;
    STRETTO_ASSERT(found[behind] == &schedule, "a kernel is of one product on all ranks");
  }
  std::vector<LibraryKernel> kernels;
  for (size_t behind = 0; behind < found.size(); ++behind) {
    if (found[behind] == nullptr || !has_no_tiles(*found[behind])) continue;
    kernels.push_back(
        {static_cast<int32_t>(behind), found[behind]->algorithm, has_few_rows(*found[behind])});
  }
  return kernels;
}

}  // namespace

bool says_kernels(const OperatorSchedule& schedule) {
  return !schedule.products.empty() && !are_alike(schedule);
}

void say_libraries(Draft& draft) {
  const std::vector<Schedule>& products = draft.schedule.products;
  if (std::none_of(products.begin(), products.end(), has_no_tiles)) return;
  if (says_kernels(draft.schedule)) {
    draft.plan.library_kernels = find_kernels(draft);
  } else {
    draft.plan.library_gemms = true;
    draft.plan.library_algorithm = products.front().algorithm;
    draft.plan.few_rows_gemms = has_few_rows(products.front());
  }
}

}  // namespace stretto
