#include "stretto/edge_kernel.h"

#include "op/graph_text.h"
#include "stretto/operator.h"

namespace stretto {

Operator with_kernel_sources(const Operator& op, const KernelSource& source) {
  if (op.kernels.empty()) return op;
  Operator with = op;
  auto text = std::make_shared<GraphText>(*op.text);
  for (size_t i = 0; i < with.kernels.size(); ++i) {
    std::shared_ptr<const std::string> found = source(with.kernels[i]);
    if (!found) continue;
    with.kernels[i].source = text->kernels.at(i).source = std::move(found);
  }
  with.text = std::move(text);
  return with;
}

}  // namespace stretto
