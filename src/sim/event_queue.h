// Future events in time order; events of one time come out in the order in which they went in.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace stretto::sim {

enum class EventKind : uint8_t {
  piece,            // a transfer asks for its next piece
  arrival,          // a piece begins to leave its sender, so it needs its receivers' ports
  moved,            // a transfer's last byte has arrived
  gemm,             // the next gemm of a rank may be done
  signal,           // a notify reaches its counter
  port_idle,        // a port may have nothing left to send
  lane,             // a lane goes on
  collective_move,  // NCCL has launched and begins to move
  collective_end,
};

struct Event {
  double time = 0;
  uint32_t order = 0;
  uint32_t subject = 0;     // as the kind says: transfer, rank, node of history, port, lane
  uint32_t generation = 0;  // gemm: which prediction this was
  EventKind kind = EventKind::lane;
};

class EventQueue {
 public:
  void push(double time, EventKind kind, uint32_t subject, uint32_t generation = 0) {
    heap_.push_back({time, next_order_++, subject, generation, kind});
    std::push_heap(heap_.begin(), heap_.end(), later);
  }
  bool empty() const { return heap_.empty(); }
  Event pop() {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    const Event event = heap_.back();
    heap_.pop_back();
    return event;
  }

 private:
  static bool later(const Event& a, const Event& b) {
    // The difference keeps its sense when the counter wraps around.
    return a.time != b.time ? a.time > b.time : static_cast<int32_t>(a.order - b.order) > 0;
  }

  std::vector<Event> heap_;
  uint32_t next_order_ = 0;
};

}  // namespace stretto::sim
