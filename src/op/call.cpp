#include "stretto/call.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/text.h"
#include "stretto/error.h"

namespace stretto {
namespace {

std::vector<std::string_view> names_of(const Operator& op,
                                       const std::vector<CallerTensor>& tensors) {
  std::vector<std::string_view> names;
  for (const CallerTensor& one : tensors) names.push_back(op.tensor(one.tensor).name);
  return names;
}

}  // namespace

std::vector<CallerTensor> caller_tensors(const Operator& op) {
  std::vector<CallerTensor> all;
  for (size_t i = 0; i < op.tensors.size() && op.tensors[i].stage < 0; ++i) {
    all.push_back({static_cast<int>(i), op.tensors[i].held, false});
  }
  for (const OperatorOutput& output : op.outputs) {
    all.push_back({output.tensor, output.held, true});
  }
  return all;
}

std::vector<CallTensor> resolve_call(const Operator& op, std::span<const CallTensor> tensors) {
  const std::vector<std::string_view> names = names_of(op, caller_tensors(op));
  std::vector<CallTensor> resolved(names.size());
  for (const CallTensor& given : tensors) {
    const auto found = std::find(names.begin(), names.end(), given.name);
    if (found == names.end()) {
      throw UsageError(unknown_word(fmt::format("tensor of {}", op.name()), given.name, names));
    }
    CallTensor& place = resolved[static_cast<size_t>(found - names.begin())];
    if (!place.name.empty()) throw UsageError(fmt::format("tensor {} is given twice", given.name));
    place = given;
  }
  std::vector<std::string_view> missing;
  for (size_t i = 0; i < names.size(); ++i) {
    if (resolved[i].name.empty()) missing.push_back(names[i]);
  }
  if (!missing.empty()) {
    throw UsageError(fmt::format("{} needs its tensors: {} missing; it has {}", op.name(),
                                 fmt::join(missing, ", "), fmt::join(names, ", ")));
  }
  return resolved;
}

void require_place(const CallTensor& tensor, int64_t rows, int64_t cols) {
  if (tensor.address == 0 && rows > 0) {
    throw UsageError(fmt::format("tensor {} is at address 0, and has {} rows", tensor.name, rows));
  }
  if (tensor.row_stride != 0 && tensor.row_stride < cols && rows > 1) {
    throw UsageError(
        fmt::format("rows of tensor {} begin {} elements apart; they have {} columns, so it must "
                    "be as many or more",
                    tensor.name, tensor.row_stride, cols));
  }
  constexpr int64_t kMostElements = int64_t{1} << 47;  // of any memory
  if (rows > 1 && tensor.row_stride > kMostElements / rows) {
    throw UsageError(
        fmt::format("{} rows of tensor {} begin {} elements apart: no memory is as large", rows,
                    tensor.name, tensor.row_stride));
  }
}

}  // namespace stretto
