// Graphs of calls that come again: one launch in the place of all that a run enqueues.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "gpu/graph.h"
#include "run/call_slots.h"

namespace stretto::runtime {

// A call is enqueued as it is when it comes for the first time, and captured when it comes again,
// which takes some 60 us. Of more than `most` calls the one makes way that was not asked for the
// longest. What cannot be captured is enqueued as it is, each time.
class CallGraphs {
 public:
  using Enqueue = std::function<void(const cuda::Stream& stream)>;

  // The GPU is current, here and below.
  explicit CallGraphs(size_t most);
  // `key` says all that `enqueue` depends on. A graph whose launches are under way may make way.
  void run(const cuda::Stream& stream, const CallSlots::Key& key, const Enqueue& enqueue);
  // Those that there are.
  size_t num_graphs() const;

 private:
  cuda::Stream captures_;  // a caller's may be the default stream, which none is captured on
  CallSlots slots_;
  std::vector<std::unique_ptr<cuda::Graph>> graphs_;  // by slot
  std::vector<bool> refused_;                         // the same: there can be no graph
};

}  // namespace stretto::runtime
