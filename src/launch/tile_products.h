// What one tile is of the products that tiles make up.
#pragma once

#include <cstdint>
#include <vector>

#include "launch/library_products.h"
#include "plan/tile_task.h"
#include "stretto/plan.h"

namespace stretto::cuda {

// The gemm at `at` of a lane with the tasks behind it that go on with its tile.
Tile tile_at(const Plan& plan, const Lane& lane, uint32_t at);

// A product of the rows of the tile that lie in one region of A and in one written region, for each
// such pair.
void add_products(const Plan& plan, const Lane& lane, const Tile& tile,
                  std::vector<Product>& products);

}  // namespace stretto::cuda
