#include "emu/caller.h"

#include <algorithm>
#include <cstring>

#include "plan/caller_buffers.h"
#include "plan/partition_tables.h"
#include "stretto/error.h"
#include "tasks/elements.h"

namespace stretto::emu {
namespace {

uint16_t find(const Plan& plan, const std::string& name, BufferRole role) {
  const auto buffer = plan.find_buffer(name);
  if (!buffer || plan.buffers[*buffer].role != role) throw UsageError(say_no_buffer(name, role));
  return *buffer;
}

void expect_shape(const Plan& plan, uint16_t buffer, int rank, const Slice& slice, DType dtype) {
  const std::string fault = fault_in_buffer(plan, buffer, rank, slice, dtype);
  if (!fault.empty()) throw WrongBuffer(fault, buffer);
}

}  // namespace

Caller::Caller(const Plan& plan, Memory& memory) : plan_(plan), memory_(memory) {
  for (const CallerTensor& tensor : caller_tensors(plan.op)) {
    const BufferRole role = tensor.is_output ? BufferRole::output : BufferRole::input;
    const uint16_t buffer = find(plan, plan.op.tensor(tensor.tensor).name, role);
    for (int rank = 0; rank < plan.ranks(); ++rank) {
      expect_shape(plan, buffer, rank, slice_of(plan.op, tensor.tensor, tensor.held, rank),
                   plan.op.tensor(tensor.tensor).dtype);
    }
    (tensor.is_output ? outputs_ : inputs_).push_back({tensor.tensor, buffer});
  }
}

std::vector<std::byte> Caller::rows_of(const Region& whole, int run) const {
  const Buffer& buffer = plan_.buffers[whole.buffer];
  const auto row_bytes = static_cast<size_t>(whole.cols() * num_bytes(buffer.dtype));
  std::vector<std::byte> rows(row_bytes * static_cast<size_t>(whole.rows()));
  memory_.read(whole, run, rows.data());
  if (buffer.partition < 0) return rows;
  std::vector<std::byte> out;
  for (const PartitionTables& tables : partition_tables(plan_, whole.rank)) {
    const Region &choices = tables.choices, &table = tables.rows;
    if (plan_.buffers[choices.buffer].partition != buffer.partition) continue;
    std::vector<int32_t> of_choice(static_cast<size_t>(table.rows()));
    memory_.read(table, run, of_choice.data());
    out.resize(std::max(out.size(), static_cast<size_t>(table.row1) * row_bytes));
    for (size_t i = 0; i < of_choice.size(); ++i) {
      std::byte* const to = out.data() + (static_cast<size_t>(table.row0) + i) * row_bytes;
      const int64_t row = choices.row0 + int64_t{of_choice[i]};
      if (of_choice[i] < 0 || row >= whole.rows()) {
        tasks::fill_poison(buffer.dtype, to, static_cast<size_t>(buffer.cols));
      } else {
        std::memcpy(to, rows.data() + static_cast<size_t>(row) * row_bytes, row_bytes);
      }
    }
  }
  return out;
}

}  // namespace stretto::emu
