// Products of tiles that lie beside one another, as one.
#pragma once

#include <vector>

#include "launch/library_products.h"

namespace stretto::cuda {

// The same products, each as large as it can be.
std::vector<Product> joined(std::vector<Product> products);

// Those whose results lie beside one another in the same rows, of the same A: a library multiplies
// them at once in memory where their weights lie behind one another.
std::vector<std::vector<Product>> beside_one_another(const std::vector<Product>& products);

}  // namespace stretto::cuda
