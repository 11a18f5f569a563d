#include "lower/pattern.h"

#include "lower/emit_patterns.h"
#include "stretto/error.h"

namespace stretto {
namespace {

#define STRETTO_ROW(name, ...) &edge_tasks::name,
const EdgeTasks* const kEdgeTasks[] = {STRETTO_EDGES(STRETTO_ROW)};
#undef STRETTO_ROW

}  // namespace

const EdgeTasks& tasks_of(Edge edge) { return *kEdgeTasks[static_cast<size_t>(edge)]; }

const Pattern& pattern_of(const Segment& op, const Schedule& schedule) {
  if (op.ranks == 1 || !op.communicates()) return patterns::local;
  const EdgeTasks& tasks = tasks_of(op.kind.in != Edge::none ? op.kind.in : op.kind.out);
  STRETTO_ASSERT(tasks.pattern != nullptr, "rows that choose matrices are lowered otherwise");
  return tasks.pattern(op, schedule);
}

}  // namespace stretto
