// `stretto run --target cuda`: plans on this machine's GPUs, verified and timed.
#pragma once

#include "cli/execution.h"
#include "cli/options.h"
#include "cli/verb.h"

namespace stretto::cli {

Outcome run_on_gpus(const Options& options, const ExecutionOptions& execution);

}  // namespace stretto::cli
