// Which of the operator's rows a task of a plan works on.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "stretto/plan.h"

namespace stretto {

// Whose rows there are: of ag-gemm and gemm-rs the ranks own them, of gemm-ar all are one owner's.
RowShards row_owners(const Operator& op);

// Whether the buffer is a tensor of the caller's that has rows of the operator: what a stage takes
// row by row, or a result.
bool has_callers_rows(const Plan& plan, const Buffer& buffer);

// Rows [first, first + count) of an owner's own.
struct TaskRows {
  int32_t owner = 0, first = 0, count = 0;
  bool operator==(const TaskRows&) const = default;
};

// Says it of many tasks of a plan, which must outlive this: what it asks of buffers is looked up.
class TaskRowFinder {
 public:
  explicit TaskRowFinder(const Plan& plan);
  // A task's, which is no deliver; nothing where it works on rows of several owners, or of none.
  std::optional<TaskRows> operator()(const Instr& task) const;
  // A region's, which is not one of B.
  std::optional<TaskRows> operator()(const Region& region) const;
  // Whether the buffer is the caller's, and holds the rows of all owners.
  bool is_compact(uint16_t buffer) const { return held_[buffer].is_compact; }

  // Which of a task's operands, reads and then writes, has rows that are not the task's: B. -1:
  // none.
  static int operand_of_other_rows(const Instr& task) {
    const TaskKind* const kind = task.kind();
    return kind != nullptr && kind->num_others > 0 ? task.num_reads - 1 : -1;
  }

 private:
  enum class Rows : uint8_t { others, of_rank, of_all };  // which ones a buffer has
  struct Held {
    Rows rows = Rows::others;
    int32_t count = 0;  // of_all
    bool is_compact = false;
  };

  int32_t owner_of(int32_t row) const;
  // `other`: the number of a region whose rows are no task's; -1: none.
  std::optional<TaskRows> find(std::span<const Region> regions, int other) const;

  const Plan* plan_;
  std::vector<Held> held_;  // by buffer
  int32_t rows_, block_;    // of all owners, of one
  double owners_by_row_;    // 1 / block_
};

}  // namespace stretto
