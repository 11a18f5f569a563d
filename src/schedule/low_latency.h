// What collectives=low-latency can serve.
#pragma once

#include <string>

#include "stretto/schedule.h"

namespace stretto {

// Why its kernels cannot make the operator's collectives, of fewer rows too with RowCount::bucket;
// empty when they can.
std::string why_no_low_latency(const Segment& op, const Machine& machine, RowCount rows);

}  // namespace stretto
