// Steps that plans may be refused at, on all processes alike.
#pragma once

#include <functional>
#include <string>

#include "fabric/host_group.h"

namespace stretto::runtime {

// Collective. Why `step` threw a UsageError, on whatever process, in the same words on all; empty
// where it threw none. Other errors go on.
std::string refusal_of(fabric::HostGroup& group, const std::function<void()>& step);

}  // namespace stretto::runtime
