// `stretto run --target cuda`: plans on this machine's GPUs, verified and timed.
#pragma once

#include "cli/execution.h"
#include "cli/request.h"
#include "cli/verb.h"

namespace stretto::cli {

Outcome run_on_gpus(const Request& request, const ExecutionOptions& options, bool json);

}  // namespace stretto::cli
