#include "run/call_graphs.h"

#include <algorithm>

#include "stretto/error.h"

namespace stretto::runtime {
namespace {

constexpr int kCallsBefore = 2, kMostCallsBefore = 1 << 20;

}  // namespace

CallGraphs::CallGraphs(size_t most, CallGraphRoom& room) : room_(room), graphs_(most) {
  slots_.add(most);
}

CallGraphs::~CallGraphs() {
  for (Slot& slot : graphs_) drop(slot);
}

void CallGraphs::drop(Slot& slot) {
  if (slot.graph) room_.remove(slot.place);
  slot = {};
  slot.calls_before = kCallsBefore;
}

const cuda::Stream& CallGraphs::stream_of(int priority) {
  std::unique_ptr<cuda::Stream>& stream = captures_[priority];
  if (!stream) stream = std::make_unique<cuda::Stream>(priority);
  return *stream;
}

void CallGraphs::capture(Slot& slot, const cuda::Stream& stream, const Enqueue& enqueue) {
  try {
    slot.graph = std::make_unique<cuda::Graph>(stream, [&] { enqueue(stream); });
  } catch (const SystemError&) {  // of memory, or of what the driver captures
    slot.is_refused = true;
    return;
  }
  slot.place = room_.add([&slot] {
    slot.graph.reset();
    slot.calls = 0;
    slot.calls_before = std::min(2 * slot.calls_before, kMostCallsBefore);
  });
}

void CallGraphs::run(const cuda::Stream& stream, CallSlots::Key key, const Enqueue& enqueue) {
  const int priority = stream.priority();
  key.push_back(static_cast<uint64_t>(priority));
  const CallSlots::Found found = *slots_.find(key, false);  // none is a caller's graph's
  Slot& slot = graphs_[found.slot];
  if (found.is_new) drop(slot);
  if (slot.graph) {
    room_.use(slot.place);
  } else if (!slot.is_refused && ++slot.calls > slot.calls_before) {
    capture(slot, stream_of(priority), enqueue);
  }
  if (slot.graph) {
    slot.graph->launch(stream);
  } else {
    enqueue(stream);
  }
}

size_t CallGraphs::num_graphs() const {
  return static_cast<size_t>(std::count_if(graphs_.begin(), graphs_.end(),
                                           [](const Slot& slot) { return slot.graph != nullptr; }));
}

}  // namespace stretto::runtime
