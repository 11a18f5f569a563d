#include "expert_routing.h"

#include <algorithm>

namespace stretto::bench {
namespace {

uint64_t mixed(uint64_t value) {
  value = (value + 0x9e3779b97f4a7c15ull) * 0xbf58476d1ce4e5b9ull;
  value = (value ^ (value >> 29)) * 0x94d049bb133111ebull;
  return value ^ (value >> 32);
}

}  // namespace

ExpertRouting::ExpertRouting(const device::ExpertShape& shape, int ranks)
    : experts_of_a_rank(static_cast<int>(shape.experts) / ranks),
      ids(static_cast<size_t>(ranks)),
      weights(static_cast<size_t>(ranks)) {
  for (size_t rank = 0; rank < ids.size(); ++rank) route(shape, rank);
  place_rows(shape);
}

void ExpertRouting::route(const device::ExpertShape& shape, uint64_t rank) {
  std::vector<int32_t>& own = ids[rank];
  size_t copies = 0;
  for (uint32_t t = 0; t < shape.max_tokens; ++t) {
    const size_t first = size_t{t} * shape.top_k;
    uint64_t owners = 0;
    for (uint32_t j = 0; j < shape.top_k; ++j) {
      uint64_t bits = mixed((rank << 40) + first + j);
      const auto expert = [&] { return static_cast<int32_t>(bits % shape.experts); };
      const auto taken = [&] {
        return std::find(own.begin() + static_cast<std::ptrdiff_t>(first), own.end(), expert()) !=
               own.end();
      };
      while (taken()) bits = mixed(bits);
      own.push_back(expert());
      weights[rank].push_back(static_cast<float>(1 + (bits >> 20) % 8) / 16);
      owners |= 1ull << (expert() / experts_of_a_rank);
    }
    copies += static_cast<size_t>(__builtin_popcountll(owners & ~(1ull << rank)));
  }
  most_remote_copies = std::max(most_remote_copies, copies);
}

// Experts in order, and in them sources and tokens.
void ExpertRouting::place_rows(const device::ExpertShape& shape) {
  for (const std::vector<int32_t>& of_rank : ids) rows.emplace_back(of_rank.size());
  uint32_t row = 0;
  for (int expert = 0; expert < static_cast<int>(shape.experts); ++expert) {
    if (expert % experts_of_a_rank == 0) row = 0;  // another owner's first
    for (size_t rank = 0; rank < ids.size(); ++rank) {
      for (size_t entry = 0; entry < ids[rank].size(); ++entry) {
        if (ids[rank][entry] == expert) rows[rank][entry] = row++;
      }
    }
    row = (row + shape.row_align - 1) / shape.row_align * shape.row_align;
  }
}

}  // namespace stretto::bench
