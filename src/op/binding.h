// A graph whose sizes are being bound: what is known of it so far, and what is wrong with it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "op/graph_text.h"
#include "stretto/operator.h"

namespace stretto {

// Who gave a tensor its sizes, as texts of extents: of what is wrong with them that is the cause.
struct Causes {
  std::string rows, cols, matrices = {};
};

class Binding {
 public:
  Binding(std::shared_ptr<const GraphText> text, int ranks, DType dtype);

  const GraphText& text;
  Operator graph;
  std::map<std::string, int, std::less<>> ids;  // of tensors, by name
  std::vector<std::string> reasons;

  // Once for each reason: one cause may show at several tensors.
  void refuse(TextPlace place, const std::string& reason);
  bool has_enough_reasons() const;
  void throw_reasons() const;  // if there are any

  void bind_sizes(const Sizes& sizes);
  // 1 where it is refused, which nothing should be measured by: num_wrong_extents.
  int64_t extent(const Extent& extent, TextPlace place);
  int num_wrong_extents = 0;

  void add(Tensor tensor, TextPlace place, Causes causes);
  const Causes& causes_of(int tensor) const { return causes_[static_cast<size_t>(tensor)]; }

 private:
  std::vector<Causes> causes_;  // by tensor
};

}  // namespace stretto
