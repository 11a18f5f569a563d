// How many waves of the compute lanes each group has.
#pragma once

#include <vector>

#include "stretto/schedule.h"

namespace stretto {

// Sizes in waves; they add up to `waves` >= 1 and none is 0. The schedule's groups are taken as far
// as they go; waves that they leave over make one more. Without any, at most five are chosen: a
// small first one, for communication to start early, then each twice its predecessor, for few
// collectives have the best rate, and a small last one, for nothing hides it.
std::vector<int> wave_groups(const Schedule& schedule, int waves);

}  // namespace stretto
