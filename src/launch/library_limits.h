// Which gemms a library can multiply: those whose tiles make up whole products.
#pragma once

#include <string>

#include "launch/tile_sums.h"
#include "stretto/plan.h"

namespace stretto::cuda {

// Why the gemms that a library multiplies are no products of it; empty when they are.
std::string why_no_products(const Plan& plan, const TileSums& sums);

}  // namespace stretto::cuda
