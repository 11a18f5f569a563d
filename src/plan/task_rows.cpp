#include "stretto/task_rows.h"

#include <algorithm>

#include "op/stage_rules.h"

namespace stretto {

RowShards row_owners(const Operator& op) {
  const auto has_owners = [](const OperatorSegment& segment) {
    return segment.product && segment.product->owns_rows();
  };
  const bool any = std::any_of(op.segments.begin(), op.segments.end(), has_owners);
  return {op.rows(), any ? op.ranks : 1};
}

bool has_callers_rows(const Plan& plan, const Buffer& buffer) {
  if (buffer.role != BufferRole::input) return buffer.role == BufferRole::output;
  const std::optional<int> tensor = plan.op.find_tensor(buffer.name);
  if (!tensor) return false;
  const auto takes_rows = [&](const Stage& stage) {
    for (size_t i = 0; i < stage.in.size(); ++i) {
      if (stage.in[i] == *tensor && !is_parameter(stage.kind, i)) return true;
    }
    return false;
  };
  return std::any_of(plan.op.stages.begin(), plan.op.stages.end(), takes_rows);
}

// A buffer has the operator's rows where it is the caller's, or keeps partial sums until they
// travel, or until those of all ranges of K, which lie below one another, have been added.
TaskRowFinder::TaskRowFinder(const Plan& plan) : plan_(&plan), held_(plan.buffers.size()) {
  const RowShards owners = row_owners(plan.op);
  rows_ = static_cast<int32_t>(owners.rows);
  block_ = static_cast<int32_t>(owners.block());
  owners_by_row_ = 1.0 / std::max(1, block_);
  for (size_t i = 0; i < held_.size(); ++i) {
    const Buffer& buffer = plan.buffers[i];
    const bool staged = buffer.role == BufferRole::local && buffer.rows % plan.op.rows() == 0;
    const bool is_callers = has_callers_rows(plan, buffer);
    if (!is_callers && !staged) continue;
    const bool is_sharded = buffer.sharded_rows > 0;
    held_[i] = {is_sharded ? Rows::of_rank : Rows::of_all, staged ? buffer.rows : rows_,
                is_callers && !is_sharded};
  }
}

// row / block_, which is asked so often that the division of integers would be a cost.
int32_t TaskRowFinder::owner_of(int32_t row) const {
  const auto owner = static_cast<int32_t>(row * owners_by_row_);
  const int64_t first = int64_t{owner} * block_;
  return row < first ? owner - 1 : row >= first + block_ ? owner + 1 : owner;
}

std::optional<TaskRows> TaskRowFinder::operator()(const Instr& task) const {
  const Region* const operands = plan_->operands.data() + task.first_operand;
  const auto count = static_cast<size_t>(task.num_reads + task.num_writes);
  return find({operands, count}, operand_of_other_rows(task));
}

std::optional<TaskRows> TaskRowFinder::operator()(const Region& region) const {
  return find({&region, 1}, -1);
}

std::optional<TaskRows> TaskRowFinder::find(std::span<const Region> regions, int other) const {
  TaskRows found{-1, 0, -1};
  bool has_origin = false;
  for (size_t i = 0; i < regions.size(); ++i) {
    if (static_cast<int>(i) == other) continue;
    const Region& region = regions[i];
    if (found.count >= 0 && region.rows() != found.count) return std::nullopt;  // stacked
    found.count = region.rows();
    // The region begins with the row that others have begun with, where its buffer has the
    // operator's rows.
    const Held& held = held_[region.buffer];
    if (held.rows == Rows::others) continue;
    int32_t owner = region.rank, row = region.row0;
    if (held.rows == Rows::of_all) {
      if (row < 0 || row >= held.count) continue;
      if (row >= rows_) row %= rows_;
      owner = row < block_ ? 0 : owner_of(row);
      row -= owner * block_;
    }
    if (has_origin && (owner != found.owner || row != found.first)) return std::nullopt;
    has_origin = true;
    found.owner = owner;
    found.first = row;
  }
  if (!has_origin) return std::nullopt;
  const int64_t left = std::max<int64_t>(0, rows_ - int64_t{found.owner} * block_);
  if (int64_t{found.first} + found.count > std::min<int64_t>(left, block_)) return std::nullopt;
  return found;
}

}  // namespace stretto
