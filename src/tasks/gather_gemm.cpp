// gather_gemm each=S per=P CHOICES EXPERTS X B -> C..: C's rows are X's, picked by CHOICES, times
// the transpose of the matrix of the stack B that EXPERTS, a number for each entry, names. Choice c
// takes row c / P of X. Rows without a choice are undefined, all of them where the entry is empty.
#include <fmt/format.h>

#include <cstring>

#include "tasks/kinds.h"
#include "tasks/stacks.h"
#include "tasks/tables.h"

namespace stretto::tasks {
namespace {

TaskFault fault_in_gather(std::span<const Region> reads) {
  if (reads.size() != 4) {
    return {"four regions: CHOICES, EXPERTS, X and B", nullptr, fmt::format("{}", reads.size())};
  }
  if (reads[0].cols() != 1) return {"one column of choices", &reads[0]};
  TaskFault fault = fault_in_entries(reads[1], reads[0]);
  if (!fault.expected.empty()) return fault;
  if (reads[2].cols() != reads[3].cols()) {
    return {fmt::format("a region of X with the {} columns of B", reads[3].cols()), &reads[2]};
  }
  return {};
}

// Rows with a choice come first in an entry.
void multiply_picked(const Work& work) {
  const Operand &choices = work.reads[0], &x = work.reads[2];
  const auto row_bytes = static_cast<size_t>(x.cols * num_bytes(x.view.dtype));
  std::vector<std::byte>& picked = work.scratch.bytes;
  picked.resize(row_bytes * static_cast<size_t>(work.rows));
  for_each_entry(work, [&](int64_t first, int64_t last, int32_t expert) {
    int64_t end = first;
    for (int64_t row = first; row < last; ++row) {
      const int32_t choice = number_in(choices, row);
      const int64_t from = choice / work.operands.counts[1];
      if (!has_expert(work, expert) || choice < 0 || from >= x.rows) {
        leave_undefined(work, row);
        continue;
      }
      std::memcpy(picked.data() + static_cast<size_t>(row) * row_bytes, x.row(from), row_bytes);
      end = row + 1;
    }
    if (end == first) return;
    const std::byte* const a = picked.data() + static_cast<size_t>(first) * row_bytes;
    multiply_by_expert(work, {a, x.cols, x.view.dtype}, first, end - first, expert);
  });
}

// Tiles that pick their rows while they load them multiply so many times longer. One H100, layers
// of four models with 256 and more rows an expert: 1.2 (2048 columns of rows) to 1.45 (7168).
constexpr double kPicked = 1.35;

}  // namespace

const TaskKind gather_gemm = {
    .worker = Worker::gemm_kernel,
    .cost = {.rate = Rate::mmas, .flops = flops_of_stack, .times = kPicked},
    .kernels = {.by = KernelKind::gemm, .of_entries = true, .gathers = true},
    .in_tile = TileRole::product,
    .num_others = 3,
    .columns = ColumnsOf::writes,
    .counts = {"each", "per"},
    .reads_tables = 0b11,
    .fault = fault_in_gather,
    .compute = multiply_picked,
    .fault_in_result = fault_in_stack};

}  // namespace stretto::tasks
