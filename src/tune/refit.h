// Tiles as wide as an operator needs them.
#pragma once

#include <optional>

#include "stretto/machine.h"
#include "stretto/schedule.h"
#include "stretto/segment.h"

namespace stretto {

// The same gather by tiles and communication blocks with the width whose waves take the least time,
// by count: what was fast on a neighbour fills a wave there. Nothing for other schedules, and where
// none is legal or the width is the same.
std::optional<Schedule> refitted(const Schedule& schedule, const Segment& op,
                                 const Machine& machine);

}  // namespace stretto
