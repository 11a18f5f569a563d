#include "run/call_graphs.h"

#include <algorithm>

#include "stretto/error.h"

namespace stretto::runtime {

CallGraphs::CallGraphs(size_t most) : graphs_(most), refused_(most) { slots_.add(most); }

void CallGraphs::run(const cuda::Stream& stream, const CallSlots::Key& key,
                     const Enqueue& enqueue) {
  const CallSlots::Found found = *slots_.find(key, false);  // none is a caller's graph's
  std::unique_ptr<cuda::Graph>& graph = graphs_[found.slot];
  const bool comes_again = !found.is_new;
  if (found.is_new) {
    graph.reset();
    refused_[found.slot] = false;
  }
  if (comes_again && !graph && !refused_[found.slot]) {
    try {
      graph = std::make_unique<cuda::Graph>(captures_, [&] { enqueue(captures_); });
    } catch (const SystemError&) {  // of memory, or of what the driver captures
      refused_[found.slot] = true;
    }
  }
  if (graph) {
    graph->launch(stream);
  } else {
    enqueue(stream);
  }
}

size_t CallGraphs::num_graphs() const {
  return static_cast<size_t>(std::count_if(graphs_.begin(), graphs_.end(),
                                           [](const auto& graph) { return graph != nullptr; }));
}

}  // namespace stretto::runtime
