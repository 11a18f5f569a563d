#include "calls/call_graph_room.h"

#include <utility>

namespace stretto::runtime {

CallGraphRoom::Place CallGraphRoom::add(std::function<void()> give_up) {
  while (!places_.empty() && places_.size() >= most_) {
    const std::function<void()> oldest = std::move(places_.back());
    places_.pop_back();
    oldest();
  }
  return places_.insert(places_.begin(), std::move(give_up));
}

}  // namespace stretto::runtime
