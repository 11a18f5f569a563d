#include "launch/join_products.h"

#include <algorithm>
#include <tuple>

namespace stretto::cuda {
namespace {

int buffer_of(const std::optional<Region>& region) { return region ? region->buffer : -1; }
// Rows of bias may lie below one another in a buffer.
auto bias_of(const Product& p, size_t i) {
  return std::pair(buffer_of(p.bias[i]), p.bias[i] ? p.bias[i]->row0 : 0);
}
auto operands_of(const Product& p) {
  const int activation = p.activation ? static_cast<int>(*p.activation) : -1;
  return std::tuple(p.a.buffer, p.b.buffer, p.c.buffer, p.a.rank, p.b.rank, p.c.rank, p.a.col0,
                    p.a.col1, p.b.col0, p.b.col1, activation, buffer_of(p.beside), bias_of(p, 0),
                    bias_of(p, 1));
}
auto rows_of(const Product& p) { return std::tuple(p.a.row0, p.a.row1, p.c.row0, p.c.row1); }
auto columns_of(const Product& p) {
  const auto first = [](const std::optional<Region>& region, int32_t Region::*from) {
    return region ? (*region).*from : 0;
  };
  return std::tuple(p.b.row0, p.b.row1, p.c.col0, p.c.col1, first(p.beside, &Region::row0),
                    first(p.bias[0], &Region::col0), first(p.bias[1], &Region::col0));
}

// Of two of the same operands: whether the columns of the right one follow those of the left one.
bool goes_on_right(const Product& left, const Product& right) {
  bool goes_on = left.b.row1 == right.b.row0 && left.c.col1 == right.c.col0;
  if (left.beside) goes_on = goes_on && left.beside->row1 == right.beside->row0;
  for (size_t i = 0; i < left.bias.size(); ++i) {
    if (left.bias[i]) goes_on = goes_on && left.bias[i]->col1 == right.bias[i]->col0;
  }
  return goes_on;
}
void add_right(const Product& right, Product& left) {
  left.b.row1 = right.b.row1;
  left.c.col1 = right.c.col1;
  if (left.beside) left.beside->row1 = right.beside->row1;
  for (size_t i = 0; i < left.bias.size(); ++i) {
    if (left.bias[i]) left.bias[i]->col1 = right.bias[i]->col1;
  }
}

// Sorts by `key` and joins neighbours where `join` does.
template <typename Key, typename Join>
void join_all(std::vector<Product>& products, const Key& key, const Join& join) {
  std::sort(products.begin(), products.end(),
            [&](const Product& x, const Product& y) { return key(x) < key(y); });
  size_t kept = 0;
  for (size_t i = 1; i < products.size(); ++i) {
    if (!join(products[kept], products[i])) products[++kept] = products[i];
  }
  if (!products.empty()) products.resize(kept + 1);
}

}  // namespace

// Tiles beside one another first, then the rows that these make below one another.
std::vector<Product> joined(std::vector<Product> products) {
  join_all(
      products,
      [](const Product& p) { return std::tuple(operands_of(p), rows_of(p), columns_of(p)); },
      [](Product& left, const Product& right) {
        const bool joins = operands_of(left) == operands_of(right) &&
                           rows_of(left) == rows_of(right) && goes_on_right(left, right);
        if (joins) add_right(right, left);
        return joins;
      });
  join_all(
      products,
      [](const Product& p) { return std::tuple(operands_of(p), columns_of(p), rows_of(p)); },
      [](Product& upper, const Product& lower) {
        const bool joins = operands_of(upper) == operands_of(lower) &&
                           columns_of(upper) == columns_of(lower) && upper.a.row1 == lower.a.row0 &&
                           upper.c.row1 == lower.c.row0;
        if (joins) upper.a.row1 = lower.a.row1, upper.c.row1 = lower.c.row1;
        return joins;
      });
  return products;
}

std::vector<std::vector<Product>> beside_one_another(const std::vector<Product>& products) {
  std::vector<std::vector<Product>> all;
  const auto goes_on = [](const Product& left, const Product& right) {
    return left.a == right.a && left.b.cols() == right.b.cols() &&
           left.c.buffer == right.c.buffer && left.c.rank == right.c.rank &&
           left.c.row0 == right.c.row0 && left.c.row1 == right.c.row1 &&
           left.c.col1 == right.c.col0;
  };
  const auto is_first = [&](const Product& one) {
    return std::none_of(products.begin(), products.end(),
                        [&](const Product& left) { return goes_on(left, one); });
  };
  for (const Product& first : products) {
    if (!is_first(first)) continue;
    std::vector<Product>& row = all.emplace_back(1, first);
    for (bool any = true; any;) {
      const auto next = std::find_if(products.begin(), products.end(), [&](const Product& right) {
        return goes_on(row.back(), right);
      });
      any = next != products.end();
      if (any) row.push_back(*next);
    }
  }
  return all;
}

}  // namespace stretto::cuda
