#include "lower/reduce_lanes.h"

namespace stretto {

ReduceLanes::ReduceLanes(const SegmentLowering& state)
    : state_(state),
      events_(state.schedule.sync == Sync::event),
      compute_reduces_(!events_ || state.lanes.comm == 0),
      pace_(state.op, state.schedule, state.machine),
      of_rank_(static_cast<size_t>(state.op.ranks)) {
  const LaneTable& lanes = state.lanes;
  for (OfRank& rank : of_rank_) {
    for (int i = 0; i < lanes.comm; ++i) rank.comm.add(i, 0);
    for (int i = 0; i < lanes.compute && compute_reduces_; ++i) {
      const int64_t tasks = (state.num_tasks() - i + lanes.compute - 1) / lanes.compute;
      rank.compute.add(i, events_ ? 0 : tasks * pace_.task_ns);
    }
  }
}

std::vector<Rect> ReduceLanes::parts_of(const Rect& rect, int lanes) const {
  const int32_t tile_n = state_.schedule.tile_n;
  const int64_t tile = int64_t{state_.schedule.tile_m} * tile_n;
  const auto parts =
      static_cast<int32_t>(std::min<int64_t>((rect.elements() + tile - 1) / tile, lanes));
  const int32_t across = std::min(parts, (rect.cols() + tile_n - 1) / tile_n);
  return split(rect, parts / across, across, tile_n);
}

std::vector<Rect> ReduceLanes::parts_for_all(const Rect& rect, size_t count) const {
  const int comm = state_.lanes.comm;
  const int lanes = comm + (compute_reduces_ ? state_.lanes.compute : 0);
  const auto reduces = static_cast<int>(count);
  return parts_of(rect, std::max(comm, (lanes + reduces - 1) / reduces));
}

std::optional<uint32_t> ReduceLanes::lane_of_tile(int rank, int32_t tile, int32_t wave) const {
  const TileOrder& order = state_.orders[static_cast<size_t>(rank)];
  const auto t = static_cast<size_t>(tile);
  if (order.done_wave[t] != wave) return std::nullopt;
  const int last = (order.position[t] + 1) * state_.splits() - 1;  // of its tasks
  return state_.lanes.compute_lane(rank, last % state_.lanes.compute);
}

uint32_t ReduceLanes::give_comm(int rank, int32_t wave, int64_t num_bytes) {
  const int lane = of(rank).comm.take(end_of(wave), pace_.move_ns(num_bytes));
  return state_.lanes.comm_lane(rank, lane);
}

uint32_t ReduceLanes::give_late(int rank, int32_t wave, int64_t num_bytes) {
  const int lane = of(rank).compute.take(end_of(wave), pace_.move_ns(num_bytes));
  return state_.lanes.compute_lane(rank, lane);
}

ReduceLanes::Given ReduceLanes::give(int rank, int32_t wave, int64_t num_bytes) {
  const OfRank& own = of(rank);
  const int64_t ready = end_of(wave);
  const bool comm_is_first =
      !own.comm.empty() &&
      (own.compute.empty() || own.comm.start(ready) <= own.compute.start(ready));
  if (comm_is_first) return {give_comm(rank, wave, num_bytes), false};
  return {give_late(rank, wave, num_bytes), true};
}

}  // namespace stretto
