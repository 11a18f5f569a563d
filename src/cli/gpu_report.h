// What plans did on GPUs, as a table for people and as JSON.
#pragma once

#include <string>
#include <vector>

#include "cli/gpu_run.h"

namespace stretto::cli {

// `rows` of what `request` asked for, run on `gpus`.
std::string print(const std::vector<GpuRow>& rows, const Request& request,
                  const ExecutionOptions& options, const fabric::Fabric& gpus);
// `good`: of all rows.
Json to_json(const std::vector<GpuRow>& rows, const Request& request,
             const ExecutionOptions& options, const fabric::Fabric& gpus, bool good);

}  // namespace stretto::cli
