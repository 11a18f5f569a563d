// The waits and notifies of the tasks of a kernel's table.
#pragma once

#include "launch/signal_layout.h"
#include "stretto/device/gemm_task.h"
#include "stretto/error.h"

namespace stretto::cuda {

// Collects the waits before a task and the notifies after it.
template <typename Table>
class TaskSync {
 public:
  TaskSync(const Plan& plan, const SignalLayout& signals, int rank, Table& table)
      : plan_(plan), signals_(signals), rank_(rank), table_(table) {}

  void add_wait(const Instr& instr, uint32_t before = 0) {
    table_.waits.push_back(signals_.wait_entry(plan_, rank_, instr));
    table_.waits.back().before = before;
  }
  // `task` is the last one that claimed.
  template <typename Task>
  void add_notify(const Instr& instr, Task& task) {
    table_.notifies.push_back(signals_.notify_entry(plan_, instr));
    ++task.num_notifies;
    STRETTO_ASSERT(task.num_notifies != 0, "a task has too many notifies");
  }
  // The waits since the last task; they become this task's.
  template <typename Task>
  void claim_waits(Task& task) {
    task.first_wait = first_wait_;
    const auto count = static_cast<uint32_t>(table_.waits.size()) - first_wait_;
    task.num_waits = static_cast<decltype(task.num_waits)>(count);
    STRETTO_ASSERT(task.num_waits == count, "a task has too many waits");
    first_wait_ = static_cast<uint32_t>(table_.waits.size());
    task.first_notify = static_cast<uint32_t>(table_.notifies.size());
  }
  // A task that only goes on with the one before: the waits since then are late ones.
  void claim_late_waits_alone(device::GemmTask& task) {
    task.first_wait = first_wait_;
    task.first_notify = static_cast<uint32_t>(table_.notifies.size());
    claim_late_waits(task);
  }
  // Those that have come since, as what the task awaits once its tile is computed.
  void claim_late_waits(device::GemmTask& task) {
    const auto count = static_cast<uint32_t>(table_.waits.size()) - first_wait_;
    task.num_late_waits = static_cast<uint8_t>(count);
    STRETTO_ASSERT(task.num_late_waits == count, "a task has too many waits");
    first_wait_ = static_cast<uint32_t>(table_.waits.size());
  }
  bool has_unclaimed_waits() const { return first_wait_ != table_.waits.size(); }
  size_t num_unclaimed_waits() const { return table_.waits.size() - first_wait_; }

 private:
  const Plan& plan_;
  const SignalLayout& signals_;
  int rank_;
  Table& table_;
  uint32_t first_wait_ = 0;
};

}  // namespace stretto::cuda
