// Starts a job of this machine: one process a rank, ended together.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace stretto::fabric {

// Runs the command in `ranks` processes, each told its rank by STRETTO_RANK and its kin, and waits.
// When one fails or this process is asked to end, the others get a few seconds and are then ended,
// and so is what any of them has started, unless it has made a session or a process group of its
// own. When this process is asked to stop (SIGTSTP), they stop with it.
// Returns 0, or what the first process that failed returned (128 + N for one ended by signal N).
// `tell` hears of each that a signal ended which this process did not send: it had no last words.
// Throws UsageError when the command cannot be found, SystemError.
int launch(int ranks, const std::vector<std::string>& command,
           const std::function<void(const std::string& line)>& tell = {});

}  // namespace stretto::fabric
