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

std::vector<CallTensor> resolve_call(const Operator& op, int rank,
                                     std::span<const CallTensor> tensors) {
  const std::vector<CallerTensor> known = caller_tensors(op);
  const std::vector<std::string_view> names = names_of(op, known);
  std::vector<CallTensor> resolved(known.size());
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
  for (size_t i = 0; i < known.size(); ++i) {
    CallTensor& one = resolved[i];
    if (one.name.empty()) {
      missing.push_back(names[i]);
      continue;
    }
    const Slice slice = slice_of(op, known[i].tensor, known[i].held, rank);
    if (one.address == 0 && slice.rows() > 0) {
      throw UsageError(fmt::format("tensor {} of rank {} is at address 0", one.name, rank));
    }
    if (one.row_stride == 0) one.row_stride = slice.cols();
    if (one.row_stride < slice.cols()) {
      throw UsageError(
          fmt::format("rows of tensor {} begin {} elements apart; they have {} columns, so it must "
                      "be as many or more",
                      one.name, one.row_stride, slice.cols()));
    }
  }
  if (!missing.empty()) {
    throw UsageError(fmt::format("{} needs its tensors: {} missing; it has {}", op.name(),
                                 fmt::join(missing, ", "), fmt::join(names, ", ")));
  }
  return resolved;
}

}  // namespace stretto
