#include "tune/refit.h"

#include <ranges>

#include "core/ceil_div.h"

namespace stretto {
namespace {

constexpr int kWidths[] = {64, 96, 128, 160, 192, 224, 256};
// What a wave takes beside its columns: the loads of A and the epilogue, as so many columns more.
constexpr int kColumnsOfAWave = 16;

}  // namespace

std::optional<Schedule> refitted(const Schedule& schedule, const Segment& op,
                                 const Machine& machine) {
  const bool is_fused = schedule.granularity == Granularity::tile &&
                        schedule.mover == Mover::comm_blocks && schedule.gemm == GemmBy::tiles;
  const int64_t lanes = machine.sms - schedule.comm_sms;
  if (op.makes_terms() || !is_fused || lanes <= 0) return std::nullopt;
  std::optional<Schedule> best;
  int64_t least = 0;
  for (const int width : std::views::reverse(kWidths)) {  // of equal ones the widest
    Schedule one = schedule;
    one.tile_n = width;
    if (!legal(op, one, machine).empty()) continue;
    const int64_t tiles = ceil_div(op.m, one.tile_m) * ceil_div(op.local_n(), width);
    const int64_t time = ceil_div(tiles, lanes) * (width + kColumnsOfAWave);
    if (best && time >= least) continue;
    best = one;
    least = time;
  }
  if (!best || best->tile_n == schedule.tile_n) return std::nullopt;
  return best;
}

}  // namespace stretto
