// When the tasks of a kernel came how far, for timelines of real runs
// (src/measure/measured_timeline.h).
#pragma once

#include "stretto/device/types.h"
#ifdef STRETTO_DEVICE
#include "stretto/device/ptx_memory.h"
#endif

namespace stretto::device {

// What a task passes, in this order; some pass only some of them.
enum class Mark : uint32 {
  ready,       // the first of its signals that are awaited together have come
  all_ready,   // all that it awaits before its end
  begun,       // its first operands are on the SM
  multiplied,  // of a tile: K is at its end
  finished,    // of a tile: others' sums are added to it; of a copy: its stores are complete
  done         // its notifies are made
};
inline constexpr uint32 kMarks = 6;

// Nanoseconds of the GPU's clock, of the last run; null: nobody wants to know.
struct TaskMarks {
  uint64* begins;  // by block
  uint64* tasks;   // kMarks for each
};

#ifdef STRETTO_DEVICE

STRETTO_DEVICE void mark_begin(const TaskMarks& marks, uint32 block) {
  if (marks.begins != nullptr) marks.begins[block] = global_time_ns();
}
STRETTO_DEVICE void mark(const TaskMarks& marks, uint32 task, Mark passed) {
  if (marks.tasks != nullptr) {
    marks.tasks[task * kMarks + static_cast<uint32>(passed)] = global_time_ns();
  }
}

#endif  // STRETTO_DEVICE

}  // namespace stretto::device
