// Writes and notifies on their way. A lane's results enter here and become visible to everyone at
// once when they are delivered: later, in any order, in pieces. Two rules hold:
//   - writes of one lane to one place are delivered in the lane's order;
//   - a notify is delivered only after all earlier writes of its lane (release); notifies and
//     writes that come after a notify may overtake it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "emu/faults.h"
#include "emu/memory.h"
#include "emu/scheduler.h"
#include "emu/signals.h"

namespace stretto::emu {

// A task's result, shared by the writes that carry parts of it.
struct Payload {
  std::shared_ptr<std::byte[]> bytes;
  int64_t stride = 0;  // elements from row to row
  static Payload make(int64_t rows, int64_t cols, int64_t element_bytes);
};

class InFlight {
 public:
  InFlight(const Plan& plan, Memory& memory, Signals& signals, Faults& faults,
           Scheduler& scheduler);

  // Row `row` of the payload goes to the region's first row.
  void write(const Where& where, const Region& region, const Payload& payload, int64_t row);
  void notify(const Where& where, size_t counter, int64_t amount);

  // One entry of the lane, or a piece of one, as the scheduler's dice say.
  void deliver_some(uint32_t lane);
  // What a lane must see of its own writes before it reads `region`.
  void deliver_overlapping(uint32_t lane, const Region& region);
  void deliver_writes(uint32_t lane);

  bool empty(int rank) const { return rank_entries_[static_cast<size_t>(rank)] == 0; }
  // Lanes whose wait was fulfilled by a delivery; the caller of this empties it.
  std::vector<uint32_t>& woken() { return woken_; }

 private:
  struct Entry {
    Where where;
    bool is_write = false;
    Region region;  // write: what is still to be delivered
    Payload payload;
    int64_t first = 0;   // element of the payload that goes to the region's first element
    size_t counter = 0;  // notify
    int64_t amount = 0;
  };
  void push(Entry entry);
  void deliver(uint32_t lane, size_t index);
  void store(const Entry& entry, const Region& region);
  // The entry to deliver first when the one at `index` is wanted: itself, or an older one that the
  // two rules put before it.
  size_t first_before(uint32_t lane, size_t index) const;

  const Plan& plan_;
  Memory& memory_;
  Signals& signals_;
  Faults& faults_;
  Scheduler& scheduler_;
  std::vector<std::vector<Entry>> entries_;  // by lane, in its order
  std::vector<size_t> rank_entries_;
  int64_t bytes_ = 0;
  std::vector<uint32_t> woken_;
};

// Writes beyond this many bytes in flight are delivered at once.
inline constexpr int64_t kMaxInFlightBytes = int64_t{128} << 20;

}  // namespace stretto::emu
