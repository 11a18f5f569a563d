#include "calls/call_graphs.h"

#include <algorithm>

#include "stretto/error.h"

namespace stretto::runtime {
namespace {

constexpr int kCallsBefore = 2, kMostCallsBefore = 1 << 20;
// Of a kind, of which most have few calls, that come again. What is loaded or chosen at first use
// is there then: a capture would not survive it.
constexpr int kAlikeBefore = 8, kMostRemade = 8;
constexpr size_t kMostKinds = 32;

}  // namespace

CallGraphs::CallGraphs(size_t most, CallGraphRoom& room)
    : room_(room), graphs_(most), of_kinds_(kMostKinds) {
  slots_.add(most);
  kinds_.add(kMostKinds);
}

CallGraphs::~CallGraphs() {
  for (Slots* slots : {&graphs_, &of_kinds_}) {
    for (Slot& slot : *slots) drop(slot);
  }
}

void CallGraphs::drop(Slot& slot) {
  if (slot.graph) room_.remove(slot.place);
  slot = {};
}

CallGraphs::Slot& CallGraphs::find(CallSlots& in, Slots& slots, const CallSlots::Key& key,
                                   int calls_before) {
  const CallSlots::Found found = *in.find(key, false);  // none is a caller's graph's
  Slot& slot = slots[found.slot];
  if (found.is_new) {
    drop(slot);
    slot.calls_before = calls_before;
  }
  return slot;
}

const cuda::Stream& CallGraphs::stream_of(int priority) {
  std::unique_ptr<cuda::Stream>& stream = captures_[priority];
  if (!stream) stream = std::make_unique<cuda::Stream>(priority);
  return *stream;
}

void CallGraphs::keep(Slot& slot, const cuda::Capture& capture) {
  slot.graph = std::make_unique<cuda::Graph>(capture);
  slot.place = room_.add([&slot] {
    slot.graph.reset();
    slot.calls = 0;
    slot.calls_before = std::min(2 * slot.calls_before, kMostCallsBefore);
  });
}

bool CallGraphs::launch(Slot& slot, const cuda::Stream& stream, const Enqueue& enqueue) {
  if (slot.graph) {
    room_.use(slot.place);
  } else if (!slot.is_refused && ++slot.calls > slot.calls_before) {
    const cuda::Stream& on = stream_of(stream.priority());
    try {
      keep(slot, cuda::Capture(on, [&] { enqueue(on); }));
    } catch (const SystemError&) {  // of memory, or of what the driver captures
      slot.is_refused = true;
    }
  }
  if (slot.graph) slot.graph->launch(stream);
  return slot.graph != nullptr;
}

bool CallGraphs::launch_alike(Slot& slot, const cuda::Stream& stream, const Enqueue& enqueue) {
  if (slot.is_refused || (!slot.graph && ++slot.calls <= slot.calls_before)) return false;
  const cuda::Stream& on = stream_of(stream.priority());
  try {
    const cuda::Capture capture(on, [&] { enqueue(on); });
    if (!slot.graph) {
      keep(slot, capture);
    } else {
      room_.use(slot.place);
      if (!slot.graph->become(capture)) {
        slot.graph = std::make_unique<cuda::Graph>(capture);
        slot.is_refused = ++slot.remade > kMostRemade;  // the others go without
      }
    }
  } catch (const SystemError&) {
    slot.is_refused = true;
    return false;
  }
  slot.graph->launch(stream);
  return true;
}

void CallGraphs::run(const cuda::Stream& stream, CallSlots::Key key, CallSlots::Key kind,
                     const Enqueue& enqueue) {
  const auto priority = static_cast<uint64_t>(stream.priority());
  key.push_back(priority);
  Slot& own = find(slots_, graphs_, key, kCallsBefore);
  if (launch(own, stream, enqueue)) return;
  kind.push_back(priority);
  if (!own.is_refused &&
      launch_alike(find(kinds_, of_kinds_, kind, kAlikeBefore), stream, enqueue)) {
    return;
  }
  enqueue(stream);
}

size_t CallGraphs::num_graphs() const {
  size_t count = 0;
  for (const Slots* slots : {&graphs_, &of_kinds_}) {
    count += static_cast<size_t>(std::count_if(
        slots->begin(), slots->end(), [](const Slot& slot) { return slot.graph != nullptr; }));
  }
  return count;
}

}  // namespace stretto::runtime
