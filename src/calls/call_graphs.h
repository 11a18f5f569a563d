// Graphs of calls that come again: one launch in the place of all that a run enqueues.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "calls/call_graph_room.h"
#include "calls/call_slots.h"
#include "gpu/graph.h"

namespace stretto::runtime {

// A call is enqueued as it is when it comes for the first time and the second, and captured when it
// comes again, which takes some 60 us: what an allocator gives twice by chance is not worth that.
// Of more than `most` calls the one makes way that was not asked for the longest. What cannot be
// captured is enqueued as it is, each time.
//
// Calls that are alike but for where their tensors lie are of one kind. Once a kind has come some
// times, a call without a graph is captured all the same, and a graph of the kind's becomes that:
// both together take the host less than what cuBLAS and launches do.
class CallGraphs {
 public:
  using Enqueue = std::function<void(const cuda::Stream& stream)>;

  // The GPU is current, here and below. The room must outlive this.
  CallGraphs(size_t most, CallGraphRoom& room);
  ~CallGraphs();
  CallGraphs(const CallGraphs&) = delete;
  CallGraphs& operator=(const CallGraphs&) = delete;

  // `key` says all that `enqueue` depends on but the stream's priority, which kernels have in
  // graphs as they have it on the stream; `kind` all that says which nodes it has, and what it
  // prepares. A graph whose launches are under way may make way, or become another's.
  void run(const cuda::Stream& stream, CallSlots::Key key, CallSlots::Key kind,
           const Enqueue& enqueue);
  // Those that there are, of calls and of kinds.
  size_t num_graphs() const;

 private:
  struct Slot {
    std::unique_ptr<cuda::Graph> graph;
    CallGraphRoom::Place place = {};  // of the graph
    int calls = 0;                    // without a graph
    int calls_before = 0;             // there is one; grows each time that one made way
    int remade = 0;                   // how often a kind's could not become what came
    bool is_refused = false;          // there can be none
  };
  using Slots = std::vector<Slot>;
  Slot& find(CallSlots& in, Slots& slots, const CallSlots::Key& key, int calls_before);
  void drop(Slot& slot);
  // False: there is no graph that does what `enqueue` does.
  bool launch(Slot& slot, const cuda::Stream& stream, const Enqueue& enqueue);
  bool launch_alike(Slot& slot, const cuda::Stream& stream, const Enqueue& enqueue);
  void keep(Slot& slot, const cuda::Capture& capture);
  // A caller's stream may be the default one, which nothing is captured on.
  const cuda::Stream& stream_of(int priority);

  CallGraphRoom& room_;
  std::map<int, std::unique_ptr<cuda::Stream>> captures_;  // by priority
  CallSlots slots_, kinds_;
  Slots graphs_, of_kinds_;  // by slot
};

}  // namespace stretto::runtime
