// Products of which a library multiplies some.
#pragma once

#include "stretto/schedule.h"

namespace stretto {

// Whether a plan has to say it kernel by kernel: boundaries then count alike on all ranks.
bool says_kernels(const OperatorSchedule& schedule);

}  // namespace stretto
