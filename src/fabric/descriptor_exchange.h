// File descriptors between the processes of a job on one machine.
#pragma once

#include <span>
#include <vector>

#include "fabric/host_group.h"
#include "fabric/socket.h"

namespace stretto::fabric {

// Collective: hands every process a descriptor of each file that the others name, the same number
// from each. By process, in the order named; of this process itself nothing. Throws SystemError.
std::vector<std::vector<Socket>> exchange_descriptors(HostGroup& group, std::span<const int> mine);

}  // namespace stretto::fabric
