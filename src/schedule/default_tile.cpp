#include "schedule/default_tile.h"

#include <algorithm>

#include "core/ceil_div.h"

namespace stretto {
namespace {

constexpr int kLeast = 8;       // of a side, whatever the problem
constexpr int kEfficient = 64;  // below, an SM's matrix units idle

}  // namespace

TileShape default_tile(const Segment& op, int compute_sms) {
  TileShape tile;
  if (!problems(op).empty()) return tile;
  const int64_t rows = op.local_m();
  const int64_t cols = op.exchanges_output() ? op.shares_of(op.n).block() : op.local_n();
  const int64_t shard_rows = op.row_shards().block();
  while (tile.m > kLeast && tile.m >= 2 * rows) tile.m /= 2;
  while (tile.n > kLeast * std::max(1, op.weights) && tile.n >= 2 * cols) tile.n /= 2;
  while (tile.m > kEfficient && tile.m >= 2 * shard_rows) tile.m /= 2;
  while (ceil_div(rows, tile.m) * ceil_div(op.local_n(), tile.n) < compute_sms) {
    if (tile.n >= tile.m && tile.n > kEfficient) {
      tile.n /= 2;
    } else if (tile.m > kEfficient) {
      tile.m /= 2;
    } else if (tile.n > kEfficient) {
      tile.n /= 2;
    } else {
      break;
    }
  }
  return tile;
}

}  // namespace stretto
