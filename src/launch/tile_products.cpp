#include "launch/tile_products.h"

#include <algorithm>

#include "plan/placed.h"

namespace stretto::cuda {
namespace {

// Of a tile, what goes on with it.
void add_followers(const Plan& plan, const Lane& lane, const FollowedTile& tile, Product& to) {
  to.activation = tile.activation;
  if (tile.has_two()) to.beside = plan.reads(lane.instrs[tile.other]).back();
  for (size_t i = 0; i < to.bias.size(); ++i) {
    if (tile.bias[i] != 0) to.bias[i] = plan.reads(lane.instrs[tile.bias[i]])[1];
  }
}

}  // namespace

Tile tile_at(const Plan& plan, const Lane& lane, uint32_t at) {
  TileTask task(plan, lane, at);
  for (uint32_t next = at + 1; next < lane.instrs.size() && lane.instrs[next].fused; ++next) {
    if (!task.take(next).empty()) break;
  }
  return task.tile();
}

void add_products(const Plan& plan, const Lane& lane, const Tile& tile,
                  std::vector<Product>& products) {
  const FollowedTile& followed = tile.followed;
  const Instr& gemm = lane.instrs[followed ? followed.product : tile.gemm];
  const Region& b = plan.reads(gemm).back();
  for_each_row_part(plan, gemm, [&](const RowPart& part) {
    for_each_placed_write(plan, lane.instrs[tile.last], [&](const Region& to, int32_t row) {
      const int32_t first = std::max(part.first, row), last = std::min(part.last, row + to.rows());
      if (first >= last || to.cols() == 0) return;
      Product one{*part.a, b, to};
      if (followed) add_followers(plan, lane, followed, one);
      one.a.row0 = part.a->row0 + first - part.first;
      one.a.row1 = part.a->row0 + last - part.first;
      one.c.row0 = to.row0 + first - row;
      one.c.row1 = to.row0 + last - row;
      products.push_back(one);
    });
  });
}

}  // namespace stretto::cuda
