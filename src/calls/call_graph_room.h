// How many graphs of calls a rank may hold, of all plans together: each takes memory of the host
// and of the GPU, and a server has plans for every layer and bucket.
#pragma once

#include <cstddef>
#include <functional>
#include <list>

namespace stretto::runtime {

// Of the calls of one rank, which one thread makes at a time.
class CallGraphRoom {
 public:
  // For as many layers with a few shapes as large models have.
  static constexpr size_t kMost = 1024;
  explicit CallGraphRoom(size_t most = kMost) : most_(most) {}

  using Place = std::list<std::function<void()>>::iterator;
  // A place for a new graph. Where there are as many as may be, the one that was launched before
  // all others makes way: its `give_up` is called.
  Place add(std::function<void()> give_up);
  // The graph is launched.
  void use(Place place) { places_.splice(places_.begin(), places_, place); }
  // The graph is gone, by its owner.
  void remove(Place place) { places_.erase(place); }
  size_t count() const { return places_.size(); }

 private:
  size_t most_;
  std::list<std::function<void()>> places_;  // the last used first
};

}  // namespace stretto::runtime
