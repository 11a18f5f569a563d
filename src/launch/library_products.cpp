#include "launch/library_products.h"

#include <algorithm>

#include "launch/join_products.h"
#include "launch/tile_products.h"
#include "stretto/error.h"

namespace stretto::cuda {

std::vector<Region> Product::reads() const {
  std::vector<Region> all = {a, b};
  for (const std::optional<Region>& more : {beside, bias[0], bias[1]}) {
    if (more) all.push_back(*more);
  }
  return all;
}

std::vector<Product> products_of(const Plan& plan, const std::vector<BlockPart>& kernel) {
  std::vector<Product> products;
  int64_t elements = 0;
  for (const BlockPart& part : kernel) {
    const Lane& lane = plan.lanes[part.lane];
    for (uint32_t at = part.begin; at < part.end; ++at) {
      STRETTO_ASSERT(lane.instrs[at].op == Opcode::gemm, "a library's kernel begins with gemms");
      const Tile tile = tile_at(plan, lane, at);
      add_products(plan, lane, tile, products);
      at = tile.last;
      for (const Region& to : plan.writes(lane.instrs[at])) elements += to.elements();
    }
  }
  products = joined(std::move(products));
  for (const Product& product : products) elements -= product.c.elements();
  STRETTO_ASSERT(elements == 0, "products write what their gemms write");
  return products;
}

// Tiles of several products may lie in one buffer, or be read from one; weights are a product's
// own.
size_t product_of_operator(const Plan& plan, const Product& one) {
  size_t product = 0;
  for (const OperatorSegment& segment : plan.op.segments) {
    if (!segment.product) continue;
    for (const int weight : segment.weights) {
      if (plan.find_buffer(plan.op.tensor(weight).name) == one.b.buffer) return product;
    }
    ++product;
  }
  return 0;
}

std::vector<int> algorithms_by_product(const Plan& plan, const std::vector<RankProgram>& programs) {
  const auto products =
      std::count_if(plan.op.segments.begin(), plan.op.segments.end(),
                    [](const OperatorSegment& segment) { return segment.product.has_value(); });
  std::vector<int> algorithms(static_cast<size_t>(products));
  for (const RankProgram& program : programs) {
    for (size_t k = 0; k < program.gemms.size(); ++k) {
      const GemmNeeds& needs = program.needs[k];
      if (!needs.library || needs.grouped || needs.few_rows) continue;
      for (const Product& one : products_of(plan, program.gemms[k])) {
        int& asked = algorithms[product_of_operator(plan, one)];
        asked = std::max(asked, *program.needs[k].library);
      }
    }
  }
  return algorithms;
}

}  // namespace stretto::cuda
