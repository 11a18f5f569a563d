// Vector clocks: for each actor, up to which of its events something is known to have happened.
//
// Actors are the emulated threads and, from num_threads up, the source side and the destination
// side of non-blocking transfers, which happen at some time of their own until a fence or quiet.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

namespace stretto::fibre {

using Clock = std::vector<uint32_t>;
using SharedClock = std::shared_ptr<const Clock>;

struct Event {
  uint32_t actor = 0;
  uint32_t seq = 0;  // 0: before everything
};

inline bool knows(const Clock& clock, Event event) {
  return event.seq == 0 || (event.actor < clock.size() && clock[event.actor] >= event.seq);
}

inline void learn(Clock& clock, Event event) {
  if (clock.size() <= event.actor) clock.resize(event.actor + 1, 0);
  clock[event.actor] = std::max(clock[event.actor], event.seq);
}

inline void join(Clock& clock, const Clock& other) {
  if (clock.size() < other.size()) clock.resize(other.size(), 0);
  for (size_t i = 0; i < other.size(); ++i) clock[i] = std::max(clock[i], other[i]);
}

}  // namespace stretto::fibre
