// What a library multiplies in place of the GEMM kernel: the whole products that tiles make up.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "launch/rank_program.h"
#include "stretto/plan.h"

namespace stretto::cuda {

// c = a * b^T, of one rank: rows of c are rows of a, its columns are rows of b.
struct Product {
  Region a, b, c;
  // What the kernel of few rows goes on with before it stores c: swiglu has a weight more, whose
  // product is multiplied by, and a row of bias may be added to either product.
  std::optional<Opcode> activation = {};
  std::optional<Region> beside = {};
  std::array<std::optional<Region>, 2> bias = {};

  std::vector<Region> reads() const;
  bool operator==(const Product&) const = default;
};

// Those that the gemms of a kernel make up, each as large as it can be: together they write what
// the gemms write, or what goes on with their tiles, every element once. A library multiplies it,
// and why_no_products() is empty.
std::vector<Product> products_of(const Plan& plan, const std::vector<BlockPart>& kernel);

// Of the operator's products: which one it is, or is a part of.
size_t product_of_operator(const Plan& plan, const Product& one);
// By product of the operator: the algorithm of the library that multiplies it, which is what its
// schedule asks for; 0: no library, or its first.
std::vector<int> algorithms_by_product(const Plan& plan, const std::vector<RankProgram>& programs);

}  // namespace stretto::cuda
