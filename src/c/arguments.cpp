#include "c/arguments.h"

#include <fmt/format.h>

#include "c/sized.h"
#include "core/text.h"
#include "op/names.h"
#include "op/read_graph.h"
#include "stretto/error.h"
#include "stretto/reference.h"

namespace stretto::c {
namespace {

std::shared_ptr<const GraphText> graph_of(const stretto_operator& given) {
  if ((given.name != nullptr) == (given.graph != nullptr)) {
    throw UsageError("an operator has either a name or a graph; the other is NULL");
  }
  if (given.graph != nullptr) return read_graph(given.graph, "graph");
  if (auto found = find_graph(given.name)) return found;
  std::vector<std::string_view> names;
  for (const auto& graph : known_graphs()) names.push_back(name_of(*graph));
  throw UsageError(unknown_word("operator", given.name, names));
}

}  // namespace

Operator operator_of(const stretto_operator* at) {
  const stretto_operator given =
      sized(at, "op", {"stretto_operator", offsetof(stretto_operator, dtype) + sizeof(at->dtype)});
  const DType dtype = dtype_of(given.dtype);
  auto graph = graph_of(given);
  const std::string words =
      fmt::format("{} {} ranks={} dtype={}", name_of(*graph), text_of(given.sizes, "sizes"),
                  given.ranks, to_string(dtype));
  return parse_operator(words, {}, std::move(graph));
}

std::vector<TensorOfRank> call_tensors(const Operator& op, const stretto_call_tensor* tensors,
                                       size_t count) {
  std::vector<TensorOfRank> all;
  if (count == 0) return all;
  all.reserve(count);
  const size_t size = require(tensors, "tensors").size;
  // Which of them an index names; made where one has no name.
  std::vector<CallerTensor> callers;
  for (size_t i = 0; i < count; ++i) {
    const auto* at = reinterpret_cast<const stretto_call_tensor*>(
        reinterpret_cast<const char*>(tensors) + i * size);
    const auto given = sized(at, "tensors",
                             {"stretto_call_tensor", offsetof(stretto_call_tensor, row_stride) +
                                                         sizeof(tensors->row_stride)});
    if (given.rank < 0 || given.rank >= op.ranks) {
      throw UsageError(fmt::format("a tensor of rank {}; the operator has ranks 0 to {}",
                                   given.rank, op.ranks - 1));
    }
    if (given.name == nullptr && callers.empty()) callers = caller_tensors(op);
    if (given.name == nullptr &&
        (given.index < 0 || static_cast<size_t>(given.index) >= callers.size())) {
      throw UsageError(fmt::format("a tensor with index {} and no name; {} has {}", given.index,
                                   op.name(), callers.size()));
    }
    const std::string_view name =
        given.name != nullptr ? std::string_view(given.name)
                              : op.tensor(callers[static_cast<size_t>(given.index)].tensor).name;
    all.push_back({given.rank, {name, given.address, given.row_stride}});
  }
  return all;
}

void tell_tensor(const Operator& op, int32_t rank, int32_t index, stretto_tensor_info* info) {
  auto known =
      sized(info, "info",
            {"stretto_tensor_info", offsetof(stretto_tensor_info, cols) + sizeof(info->cols)});
  if (rank < 0 || rank >= op.ranks) {
    throw UsageError(fmt::format("rank {}; the operator has ranks 0 to {}", rank, op.ranks - 1));
  }
  const std::vector<CallerTensor> all = caller_tensors(op);
  if (index < 0 || index >= static_cast<int32_t>(all.size())) {
    throw UsageError(
        fmt::format("a tensor with index {}; {} has {}", index, op.name(), all.size()));
  }
  const CallerTensor& tensor = all[static_cast<size_t>(index)];
  const Slice slice = slice_of(op, tensor.tensor, tensor.held, rank);
  known.name = keep(0, op.tensor(tensor.tensor).name);
  known.held = keep(1, std::string(to_string(tensor.held)));
  known.is_output = tensor.is_output ? 1 : 0;
  known.rows = slice.rows();
  known.cols = slice.cols();
  known.dtype = keep(2, std::string(to_string(op.tensor(tensor.tensor).dtype)));
  give(known, info);
}

}  // namespace stretto::c
