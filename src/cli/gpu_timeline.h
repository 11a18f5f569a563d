// What kernels did when in a real run: a chart, a table, a file for ui.perfetto.dev.
#pragma once

#include <string>

#include "fabric/fabric.h"
#include "gpu/compiler.h"
#include "stretto/plan.h"

namespace stretto::cli {

// Of the last of runs back to back on this process's ranks. Writes `perfetto` unless it is empty,
// with the plan's `lines` unless they are null. Collective.
std::string measure_timeline(const Plan& plan, const PlanLines* lines, fabric::Fabric& fabric,
                             const cuda::Compiler& compiler, const std::string& perfetto);

}  // namespace stretto::cli
