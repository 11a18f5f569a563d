#include "check/output.h"

#include <fmt/format.h>

#include "plan/caller_buffers.h"
#include "stretto/call.h"
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

void check_input(const Plan& plan, const CallerTensor& input, Findings& findings) {
  const Tensor& tensor = plan.op.tensor(input.tensor);
  const auto index = plan.find_buffer(tensor.name);
  const auto report = [&](std::string message, std::string hint) {
    findings.add(DiagnosticKind::wrong_input, static_cast<uint64_t>(input.tensor), [&] {
      Diagnostic d;
      d.buffer = index;
      d.message = std::move(message);
      d.hint = std::move(hint);
      return d;
    });
  };
  if (!index || plan.buffers[*index].role != BufferRole::input) {
    const Slice slice = slice_of(plan.op, input.tensor, input.held, 0);
    return report(say_no_buffer(tensor.name, BufferRole::input),
                  fmt::format("declare {}, {} on rank 0, as an input", tensor.name,
                              shape(slice.rows(), slice.cols(), tensor.dtype)));
  }
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    const Slice slice = slice_of(plan.op, input.tensor, input.held, rank);
    const std::string fault = fault_in_buffer(plan, *index, rank, slice, tensor.dtype);
    if (fault.empty()) continue;
    return report(fault, fmt::format("declare {} as large as the operator's input on every rank",
                                     tensor.name));
  }
}

}  // namespace

void check_inputs(const Plan& plan, Findings& findings) {
  for (const CallerTensor& tensor : caller_tensors(plan.op)) {
    if (!tensor.is_output) check_input(plan, tensor, findings);
  }
}

void check_output(const Plan& plan, Findings& findings) {
  for (const OperatorOutput& output : plan.op.outputs) check_one(plan, output, findings);
}

}  // namespace stretto::checker
