// What gemm=few-rows can serve, and where it is in time.
#pragma once

#include <string>

#include "stretto/schedule.h"

namespace stretto {

// Why the kernel of few rows cannot multiply the product: behind a low-latency gather, of rows that
// a rank has, or so that it sends the terms of a low-latency sum; empty when it can. Says what
// would be right.
std::string why_no_few_rows(const Segment& op);

// Whether a product that streams its weights has more tiles than the SMs have at once: the next
// round's weights are asked for when the first has ended.
bool streams_in_rounds(const Segment& op, int sms);

// Whether its blocks have all tiles at once, or send one beside the next. Otherwise a second round
// begins when the first has sent: cuBLAS was up to 1.6 times as fast (docs/notes/few-rows.md).
bool sends_in_time(const Segment& op, int sms);

// How often the terms of its sum go to other ranks; 0 where it ends with none.
double times_sent(const Segment& op);

}  // namespace stretto
