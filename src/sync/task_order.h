// An order of tasks that somebody wrote lane by lane, from what they read and write.
#pragma once

#include <cstdint>
#include <vector>

#include "stretto/plan.h"

namespace stretto {

// Every instruction once, as Draft::program has them: lanes in their order, each read after the
// writes of other lanes to its place, collectives and boundaries together. With `by_events` compute
// lanes wait and notify at boundaries only (sync_points.h), and the order is one that allows it.
// The plan has no waits and notifies. Throws UnorderedPlan.
std::vector<InstrRef> order_tasks(const Plan& plan, bool by_events);

}  // namespace stretto
