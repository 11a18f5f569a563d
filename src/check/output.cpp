#include "check/output.h"

#include <fmt/format.h>

#include "stretto/reference.h"

namespace stretto::checker {
namespace {

std::string shape(int64_t rows, int64_t cols, DType dtype) {
  return fmt::format("{} x {} {}", rows, cols, to_string(dtype));
}

void check_one(const Plan& plan, const OperatorOutput& output, Findings& findings) {
  const Tensor& tensor = plan.op.tensor(output.tensor);
  const std::string& name = tensor.name;
  const auto index = plan.find_buffer(name);
  const auto slice_on = [&](int rank) {
    return slice_of(plan.op, output.tensor, output.held, rank);
  };
  const auto shape_of = [&](const Slice& slice) {
    return shape(slice.rows(), slice.cols(), tensor.dtype);
  };
  const auto report = [&](std::string message, std::string hint) {
    findings.add(DiagnosticKind::unwritten_output, ~uint64_t{0}, [&] {
      Diagnostic d;
      d.buffer = index;
      d.message = std::move(message);
      d.hint = std::move(hint);
      return d;
    });
  };
  if (!index || plan.buffers[*index].role != BufferRole::output) {
    return report(fmt::format("no task writes the output of {}: the plan has no output buffer "
                              "named {}",
                              to_string(plan.op), name),
                  fmt::format("declare {}, {} on rank 0, as an output and let tasks write it", name,
                              shape_of(slice_on(0))));
  }
  const Buffer& out = plan.buffers[*index];
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    const Slice slice = slice_on(rank);
    // What is routed has the rows of its partition.
    const bool has_rows = out.partition >= 0 || out.rows_on(rank) == slice.rows();
    if (has_rows && out.cols_on(rank) == slice.cols() && out.dtype == tensor.dtype) {
      continue;
    }
    return report(fmt::format("{} on rank {} is {}, but {} gives {} there", name, rank,
                              shape(out.rows_on(rank), out.cols_on(rank), out.dtype),
                              to_string(plan.op), shape_of(slice)),
                  fmt::format("declare {} as large as the operator's output on every rank", name));
  }
}

}  // namespace

void check_output(const Plan& plan, Findings& findings) {
  for (const OperatorOutput& output : plan.op.outputs) check_one(plan, output, findings);
}

}  // namespace stretto::checker
