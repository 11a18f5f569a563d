// What collectives=low-latency can serve.
#pragma once

#include <string>

#include "stretto/schedule.h"

namespace stretto {

// Why its kernels cannot make the operator's collectives, of fewer rows too with RowCount::bucket;
// empty when they can.
std::string why_no_low_latency(const Segment& op, const Machine& machine, RowCount rows);

// Sums for all ranks take one hop where no more bytes than these go out of a rank, and else two:
// owners of parts add them up and send on the sum. `normed`: all ranks norm the sum besides.
int64_t most_of_one_shot(int ranks, bool normed);

}  // namespace stretto
