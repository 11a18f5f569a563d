// What a kernel of the device language recorded as wrong, as one line that a person can act on.
#pragma once

#include <cstdint>
#include <string>

#include "stretto/device/lang/gpu_block.h"

namespace stretto::fabric {

// `word`: the name of the word at what.address.
std::string describe_wrong(int rank, const device::ExpiredWait& what, const std::string& word,
                           uint64_t timeout_ms);

}  // namespace stretto::fabric
