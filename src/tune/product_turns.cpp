#include "tune/product_turns.h"

#include <algorithm>

#include "stretto/segment.h"

namespace stretto {
namespace {

constexpr size_t kMostApart = 16;
// Turns times products, of which each turn simulates all.
constexpr size_t kMostSimulated = 1024;

}  // namespace

std::vector<std::vector<size_t>> product_turns(const Operator& op) {
  std::vector<const Segment*> products;
  for (const OperatorSegment& segment : op.segments) {
    if (segment.product) products.push_back(&*segment.product);
  }
  const bool are_many = products.size() > kMostApart;
  std::vector<std::vector<size_t>> turns;
  for (size_t p = 0; p < products.size(); ++p) {
    const auto alike = std::find_if(turns.begin(), turns.end(), [&](const auto& turn) {
      return are_many && *products[turn.front()] == *products[p];
    });
    if (alike == turns.end()) {
      turns.push_back({p});
    } else {
      alike->push_back(p);
    }
  }
  if (!are_many) return turns;
  const auto flops = [&](const std::vector<size_t>& turn) {
    return static_cast<double>(turn.size()) * flops_per_rank(*products[turn.front()]);
  };
  std::stable_sort(turns.begin(), turns.end(),
                   [&](const auto& a, const auto& b) { return flops(a) > flops(b); });
  const size_t most = std::clamp<size_t>(kMostSimulated / products.size(), 1, kMostApart);
  turns.resize(std::min(turns.size(), most));
  return turns;
}

}  // namespace stretto
