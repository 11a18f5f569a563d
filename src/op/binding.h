// A graph whose sizes are being bound: what is known of it so far, and what is wrong with it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "op/graph_text.h"
#include "op/known.h"
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
  bool knows_ranks = true;  // false: nothing is dealt to them, and shapes are not asked for

  // Once for each reason: one cause may show at several tensors.
  void refuse(TextPlace place, const std::string& reason);
  bool has_enough_reasons() const;
  // The text's, and those that its sizes show.
  std::vector<std::string> all_reasons() const;
  void throw_reasons() const;  // if there are any

  // Sizes that are refused are not known, nor what is made of them.
  void bind_sizes(const Sizes& sizes);
  bool knows(const Extent& extent) const;
  // None where it is refused, or not known; nothing should be measured by it.
  std::optional<int64_t> extent(const Extent& extent, TextPlace place);

  void add(Tensor tensor, TextPlace place, Causes causes, const Known& known);
  // A tensor by its name, of which nothing is known where no line could be read that makes it.
  int id_of(const std::string& tensor);
  const Known& known(int tensor) const { return known_[static_cast<size_t>(tensor)]; }
  const Causes& causes_of(int tensor) const { return causes_[static_cast<size_t>(tensor)]; }

 private:
  std::vector<Causes> causes_;  // by tensor
  std::vector<Known> known_;
  std::map<std::string, int, std::less<>> unknown_;  // tensors that are not in `ids`
  bool has_more_ = false;                            // reasons than are kept
};

}  // namespace stretto
