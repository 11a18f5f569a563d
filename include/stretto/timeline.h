// Timelines of one run of a plan, predicted (simulate.h) or measured, and how they are drawn.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stretto/plan.h"

namespace stretto {

inline constexpr uint32_t kNoLane = UINT32_MAX;

struct Span {  // one instruction that took time: a task while it ran, a wait while it blocked
  InstrRef where;
  double start_us = 0, end_us = 0;
  InstrRef released_by{kNoLane, 0};  // wait: the notify that ended it; else no lane
};

struct LinkUse {  // a time in which a rank's port sends without a pause
  uint16_t rank = 0;
  bool network = false;  // between nodes, or inside the node
  double start_us = 0, end_us = 0;
};

// Times count from the start of the run.
struct Timeline {
  double total_us = 0;         // until the last rank is done
  std::vector<Span> spans;     // in the order in which they end
  std::vector<LinkUse> links;  // by rank, inside the node before between nodes, in time order
};

// A terminal chart, `width` columns: rows of bars for the first `max_ranks` ranks, by kind of lane,
// and where less than half of all compute lanes are in tiles. `ascii` keeps to 7-bit characters.
// Ends with a newline.
std::string draw_timeline(const Plan& plan, const Timeline& timeline, int width = 100,
                          int max_ranks = 2, bool ascii = false);

}  // namespace stretto
