#include "op/binding.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/text.h"
#include "stretto/error.h"
#include "stretto/segment.h"

namespace stretto {
namespace {

constexpr size_t kMostReasons = 20;

}  // namespace

Binding::Binding(std::shared_ptr<const GraphText> of, int ranks, DType dtype) : text(*of) {
  graph.text = std::move(of);
  graph.ranks = ranks;
  graph.dtype = dtype;
}

void Binding::refuse(TextPlace place, const std::string& reason) {
  // Shipped graphs are not the user's: only a file of one's own has lines to point at.
  const std::string line =
      (find_graph(text.name).get() == &text ? "" : prefix(text, place)) + reason;
  if (std::find(reasons.begin(), reasons.end(), line) == reasons.end()) {
    reasons.push_back(line);
  }
}

bool Binding::has_enough_reasons() const { return reasons.size() >= kMostReasons; }

void Binding::throw_reasons() const {
  if (!reasons.empty()) throw UsageError(text.name + ": " + join(reasons, "; "));
}

void Binding::bind_sizes(const Sizes& sizes) {
  for (const std::string& name : text.sizes) {
    const auto given = std::find_if(sizes.begin(), sizes.end(),
                                    [&](const auto& size) { return size.first == name; });
    if (given == sizes.end()) {
      reasons.push_back(fmt::format("{}= is missing", name));
      continue;
    }
    const int64_t value = given->second;
    if (value < 1) {
      reasons.push_back(fmt::format("{} is {}; it must be at least 1", name, value));
    } else if (value > kMaxDim) {
      reasons.push_back(fmt::format("{} is {}; it can be at most {}", name, value, kMaxDim));
    }
    graph.sizes.emplace_back(name, value);
  }
  std::vector<std::string_view> known(text.sizes.begin(), text.sizes.end());
  for (const auto& [name, value] : sizes) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      reasons.push_back(unknown_word("size", name, known));
    }
  }
}

int64_t Binding::extent(const Extent& extent, TextPlace place) {
  const auto value = extent.value([&](std::string_view name) { return *graph.size(name); });
  if (value && *value >= 1 && *value <= kMaxDim) return *value;
  ++num_wrong_extents;
  refuse(place, fmt::format("{} is {}; an extent must be between 1 and {}", extent.text(),
                            value ? std::to_string(*value) : "too large", kMaxDim));
  return 1;
}

void Binding::add(Tensor tensor, TextPlace place, Causes causes) {
  if (tensor.rows * tensor.cols > kMaxElements) {
    refuse(place, fmt::format("{} has {} x {} elements; a tensor can have at most {}", tensor.name,
                              tensor.rows, tensor.cols, kMaxElements));
  } else if (tensor.rows * tensor.matrices > kMaxDim ||
             tensor.rows * tensor.cols > kMaxElements / tensor.matrices) {
    refuse(place, fmt::format("{} has {} matrices of {} x {} elements; a stack can have at most "
                              "{} rows and {} elements",
                              tensor.name, tensor.matrices, tensor.rows, tensor.cols, kMaxDim,
                              kMaxElements));
  }
  ids[tensor.name] = static_cast<int>(graph.tensors.size());
  graph.tensors.push_back(std::move(tensor));
  causes_.push_back(std::move(causes));
}

}  // namespace stretto
