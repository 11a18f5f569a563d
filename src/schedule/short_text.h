// A schedule in few words.
#pragma once

#include <string>

#include "stretto/schedule.h"

namespace stretto {

// The preset that it is nearest to, and the changes: "tiles,tile=128x192,comm-sms=4".
// parse_schedule with the same operator and machine gives the schedule back.
std::string short_text(const Schedule& schedule, const Segment& op, const Machine& machine);

// Several products have "up:.../down:...".
std::string short_text(const OperatorSchedule& schedule, const Operator& op,
                       const Machine& machine);

}  // namespace stretto
