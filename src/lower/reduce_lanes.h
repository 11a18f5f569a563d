// Which lanes move partial sums into slots and reduce them.
#pragma once

#include <optional>
#include <vector>

#include "lower/free_lanes.h"
#include "lower/lowering.h"

namespace stretto {

// Without communication blocks compute lanes reduce the tiles that they own as they compute them.
// Else reduces go to communication blocks while compute lanes have tiles; those that become
// possible when tiles end, and what is then left over, to all lanes. With events compute lanes
// would reduce in a kernel of their own, which is only worth it when there are no such blocks.
//
// Lanes are numbered as in Plan::lanes.
class ReduceLanes {
 public:
  struct Given {
    uint32_t lane = 0;
    bool is_late = false;  // a compute lane, which comes to it when its tiles are done
  };

  explicit ReduceLanes(const SegmentLowering& state);

  // Parts about as large as a tile, at most as many as there are lanes to share them. Cut between
  // columns of tiles while there are enough, so that a part needs as few tiles as possible.
  std::vector<Rect> parts_for_comm(const Rect& rect) const {
    return parts_of(rect, state_.lanes.comm);
  }
  // Of one of `count` reduces. Communication blocks share every one, so that the last ends soon.
  std::vector<Rect> parts_for_all(const Rect& rect, size_t count) const;

  // The compute lane whose last task is that tile, if it is done with `wave`.
  std::optional<uint32_t> lane_of_tile(int rank, int32_t tile, int32_t wave) const;

  // Give work that moves so many bytes, and is possible when the tiles of `wave` are done, to the
  // lane that is free first: of communication blocks, of compute lanes, of all.
  uint32_t give_comm(int rank, int32_t wave, int64_t num_bytes);
  uint32_t give_late(int rank, int32_t wave, int64_t num_bytes);
  Given give(int rank, int32_t wave, int64_t num_bytes);

 private:
  struct OfRank {
    FreeLanes comm, compute;
  };
  OfRank& of(int rank) { return of_rank_[static_cast<size_t>(rank)]; }
  std::vector<Rect> parts_of(const Rect& rect, int lanes) const;
  // When the tiles of `wave` are done.
  int64_t end_of(int32_t wave) const { return (wave + 1) * pace_.task_ns; }

  const SegmentLowering& state_;
  const bool events_;
  const bool compute_reduces_;
  const Pace pace_;
  std::vector<OfRank> of_rank_;
};

}  // namespace stretto
