#include "plan/caller_buffers.h"

#include <fmt/format.h>

namespace stretto {

std::string say_no_buffer(const std::string& name, BufferRole role) {
  return fmt::format("a plan that runs needs an {} buffer named {}; this one has none",
                     to_string(role), name);
}

std::string fault_in_buffer(const Plan& plan, uint16_t buffer, int rank, const Slice& slice,
                            DType dtype) {
  const Buffer& of = plan.buffers[buffer];
  // What is routed has the rows of its partition.
  const bool has_rows = of.partition >= 0 || of.rows_on(rank) == slice.rows();
  if (has_rows && of.cols_on(rank) == slice.cols() && of.dtype == dtype) return {};
  return fmt::format("buffer {} on rank {} is {} x {} {}, but {} has {} x {} {} there", of.name,
                     rank, of.rows_on(rank), of.cols_on(rank), to_string(of.dtype),
                     to_string(plan.op), slice.rows(), slice.cols(), to_string(dtype));
}

}  // namespace stretto
