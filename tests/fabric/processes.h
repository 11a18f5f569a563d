// Real processes: each runs one rank's part and says how it ended.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace stretto::fabric {

// body(rank) in a process of its own; what it returns, or its error's text, by rank. A process that
// has not ended after `timeout_s` is killed; "killed" and "signal N" say so.
std::vector<std::string> on_processes(int count, const std::function<std::string(int)>& body,
                                      double timeout_s = 30);

}  // namespace stretto::fabric
