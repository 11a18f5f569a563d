// Graphs of calls that come again: one launch in the place of all that a run enqueues.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "gpu/graph.h"
#include "run/call_graph_room.h"
#include "run/call_slots.h"

namespace stretto::runtime {

// A call is enqueued as it is when it comes for the first time and the second, and captured when it
// comes again, which takes some 60 us: what an allocator gives twice by chance is not worth that.
// Of more than `most` calls the one makes way that was not asked for the longest. What cannot be
// captured is enqueued as it is, each time.
class CallGraphs {
 public:
  using Enqueue = std::function<void(const cuda::Stream& stream)>;

  // The GPU is current, here and below. The room must outlive this.
  CallGraphs(size_t most, CallGraphRoom& room);
  ~CallGraphs();
  CallGraphs(const CallGraphs&) = delete;
  CallGraphs& operator=(const CallGraphs&) = delete;

  // `key` says all that `enqueue` depends on but the stream's priority, which kernels have in
  // graphs as they have it on the stream. A graph whose launches are under way may make way.
  void run(const cuda::Stream& stream, CallSlots::Key key, const Enqueue& enqueue);
  // Those that there are.
  size_t num_graphs() const;

 private:
  struct Slot {
    std::unique_ptr<cuda::Graph> graph;
    CallGraphRoom::Place place = {};  // of the graph
    int calls = 0;                    // without a graph
    int calls_before = 0;             // there is one; grows each time that one made way
    bool is_refused = false;          // there can be none
  };
  void drop(Slot& slot);
  void capture(Slot& slot, const cuda::Stream& stream, const Enqueue& enqueue);
  // A caller's stream may be the default one, which nothing is captured on.
  const cuda::Stream& stream_of(int priority);

  CallGraphRoom& room_;
  std::map<int, std::unique_ptr<cuda::Stream>> captures_;  // by priority
  CallSlots slots_;
  std::vector<Slot> graphs_;  // by slot
};

}  // namespace stretto::runtime
