#include "run/call_graphs.h"

#include <algorithm>

namespace stretto::runtime {

CallGraphs::CallGraphs(size_t most) : graphs_(most) { slots_.add(most); }

void CallGraphs::run(const cuda::Stream& stream, const CallSlots::Key& key,
                     const Enqueue& enqueue) {
  const CallSlots::Found found = *slots_.find(key, false);  // none is a caller's graph's
  std::unique_ptr<cuda::Graph>& graph = graphs_[found.slot];
  if (found.is_new) {
    graph.reset();
    enqueue(stream);
    return;
  }
  if (!graph) {
    graph = std::make_unique<cuda::Graph>(captures_, [&] { enqueue(captures_); });
  }
  graph->launch(stream);
}

size_t CallGraphs::num_graphs() const {
  return static_cast<size_t>(std::count_if(graphs_.begin(), graphs_.end(),
                                           [](const auto& graph) { return graph != nullptr; }));
}

}  // namespace stretto::runtime
