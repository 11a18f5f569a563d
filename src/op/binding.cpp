#include "op/binding.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/text.h"
#include "op/read_graph.h"
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
  if (std::find(reasons.begin(), reasons.end(), line) != reasons.end()) return;
  if (has_enough_reasons()) {
    has_more_ = true;
  } else {
    reasons.push_back(line);
  }
}

bool Binding::has_enough_reasons() const { return reasons.size() >= kMostReasons; }

std::vector<std::string> Binding::all_reasons() const {
  std::vector<std::string> all = text.faults;
  all.insert(all.end(), reasons.begin(), reasons.end());
  if (has_more_) all.push_back(std::string(kMoreFaults));
  return all;
}

void Binding::throw_reasons() const {
  const std::vector<std::string> all = all_reasons();
  if (all.empty()) return;
  // A text's own faults may be those of its name.
  throw UsageError((text.faults.empty() ? text.name + ": " : "") + join(all, "; "));
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
    if (value == 0 && name == text.sizes.front()) {
      reasons.push_back(fmt::format("{} is 0: {}", name, kNoPlanOfNoRows));
    } else if (value < 1) {
      reasons.push_back(fmt::format("{} is {}; it must be at least 1", name, value));
    } else if (value > kMaxDim) {
      reasons.push_back(fmt::format("{} is {}; it can be at most {}", name, value, kMaxDim));
    } else {
      graph.sizes.emplace_back(name, value);
    }
  }
  std::vector<std::string_view> known(text.sizes.begin(), text.sizes.end());
  for (const auto& [name, value] : sizes) {
    if (!text.knows_sizes) break;
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      reasons.push_back(unknown_word("size", name, known));
    }
  }
}

bool Binding::knows(const Extent& extent) const {
  const std::vector<Extent::Name> names = extent.names();
  return std::all_of(names.begin(), names.end(),
                     [&](const Extent::Name& one) { return graph.size(one.name).has_value(); });
}

std::optional<int64_t> Binding::extent(const Extent& extent, TextPlace place) {
  if (!knows(extent)) return std::nullopt;
  const auto value = extent.value([&](std::string_view name) { return *graph.size(name); });
  if (value && *value >= 1 && *value <= kMaxDim) return *value;
  refuse(place, fmt::format("{} is {}; an extent must be between 1 and {}", extent.text(),
                            value ? std::to_string(*value) : "too large", kMaxDim));
  return std::nullopt;
}

int Binding::id_of(const std::string& tensor) {
  if (const auto found = ids.find(tensor); found != ids.end()) return found->second;
  const auto [at, is_new] = unknown_.try_emplace(tensor, static_cast<int>(graph.tensors.size()));
  if (is_new) {
    graph.tensors.push_back({tensor, 1, 1});
    causes_.emplace_back();
    known_.push_back(Known::nothing());
  }
  return at->second;
}

void Binding::add(Tensor tensor, TextPlace place, Causes causes, const Known& known) {
  if (!known.shape()) {
    // Its other lines say what is wrong.
  } else if (tensor.rows * tensor.cols > kMaxElements) {
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
  known_.push_back(known);
}

}  // namespace stretto
