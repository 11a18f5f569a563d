// How much memory clocks may take: lanes that know much of each other fill any machine's.
#pragma once

#include <cstddef>

#include "stretto/lane_clocks.h"

namespace stretto {

// Of this machine's. What else a plan of such clocks needs is about as much again.
size_t third_of_memory();

class ClockBudget {
 public:
  // `what` is asked for: "check".
  ClockBudget(const char* what, size_t most_bytes) : what_(what), most_bytes_(most_bytes) {}

  // Before an event that hears of others. Looks ever more rarely, so that looking stays cheap.
  // Throws UsageError.
  void spend(const LaneClocks& clocks) {
    if (--events_to_look_ == 0) look(clocks);
  }

 private:
  void look(const LaneClocks& clocks);

  const char* what_;
  size_t most_bytes_;
  size_t events_ = 0, events_to_look_ = 4096;
};

}  // namespace stretto
