#include "emu/caller.h"

#include <fmt/format.h>

#include "stretto/error.h"

namespace stretto::emu {
namespace {

uint16_t find(const Plan& plan, const std::string& name, BufferRole role) {
  const auto buffer = plan.find_buffer(name);
  if (!buffer || plan.buffers[*buffer].role != role) {
    throw UsageError(fmt::format("a plan that runs needs an {} buffer named {}; this one has none",
                                 to_string(role), name));
  }
  return *buffer;
}

void expect_shape(const Plan& plan, uint16_t buffer, int rank, const Slice& slice) {
  const Buffer& of = plan.buffers[buffer];
  if (of.rows_on(rank) != slice.rows() || of.cols != slice.cols() || of.dtype != plan.op.dtype) {
    throw WrongBuffer(
        fmt::format("buffer {} on rank {} is {} x {} {}, but {} has {} x {} {} there", of.name,
                    rank, of.rows_on(rank), of.cols, to_string(of.dtype), to_string(plan.op),
                    slice.rows(), slice.cols(), to_string(plan.op.dtype)),
        buffer);
  }
}

}  // namespace

Caller::Caller(const Plan& plan, Memory& memory) : plan_(plan), memory_(memory) {
  for (const CallerTensor& tensor : caller_tensors(plan.op)) {
    const BufferRole role = tensor.is_output ? BufferRole::output : BufferRole::input;
    const uint16_t buffer = find(plan, plan.op.tensor(tensor.tensor).name, role);
    for (int rank = 0; rank < plan.ranks(); ++rank) {
      expect_shape(plan, buffer, rank, slice_of(plan.op, tensor.tensor, tensor.held, rank));
    }
    (tensor.is_output ? outputs_ : inputs_).push_back({tensor.tensor, buffer});
  }
}

}  // namespace stretto::emu
