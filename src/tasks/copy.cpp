// copy X -> Y..: Y = X, rounded to the types that are written.
#include <fmt/format.h>

#include <cstring>

#include "tasks/elements.h"
#include "tasks/kinds.h"
#include "tasks/work.h"

namespace stretto::tasks {
namespace {

TaskFault fault_in_copy(std::span<const Region> reads) {
  if (reads.size() == 1) return {};
  return {"one region to copy", nullptr, fmt::format("{}", reads.size())};
}

void move(const Work& work) {
  const Operand& from = work.reads[0];
  const DType type = from.view.dtype;
  const auto cols = static_cast<size_t>(work.cols);
  for (int64_t row = 0; row < work.rows; ++row) {
    if (type == work.to.dtype) {
      std::memcpy(work.row(row), from.row(row), cols * static_cast<size_t>(num_bytes(type)));
      continue;
    }
    work.scratch.line.resize(cols);
    widen(type, from.row(row), work.scratch.line.data(), cols);
    round_elements(work.to.dtype, work.scratch.line.data(), work.row(row), cols);
  }
}

}  // namespace

const TaskKind copy = {.worker = Worker::copy_engine,
                       .cost = {.rate = Rate::moves},
                       .kernels = {.by = KernelKind::elements},
                       .in_tile = TileRole::none,
                       .moves_tables = true,
                       .fault = fault_in_copy,
                       .compute = move};

}  // namespace stretto::tasks
