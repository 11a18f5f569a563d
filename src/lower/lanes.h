// The lanes of every rank and how work is dealt to them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace stretto {

struct LaneCounts {
  int compute = 0, comm = 0, copy = 0, nccl = 0;  // per rank

  int per_rank() const { return compute + comm + copy + nccl; }
};

// Every rank has the same lanes until idle ones are dropped; a product may use the first of each
// kind only.
struct LaneTable : LaneCounts {
  LaneCounts all;  // what any product uses

  uint32_t compute_lane(int rank, int i) const { return at(rank, i); }
  uint32_t comm_lane(int rank, int i) const { return at(rank, all.compute + i); }
  uint32_t copy_lane(int rank, int i) const { return at(rank, all.compute + all.comm + i); }
  uint32_t nccl_lane(int rank) const { return at(rank, all.compute + all.comm + all.copy); }

 private:
  uint32_t at(int rank, int i) const { return static_cast<uint32_t>(rank * all.per_rank() + i); }
};

// Deals to `lanes` lanes of every rank in turn.
class Dealer {
 public:
  Dealer(int ranks, int lanes, int first = 0)
      : lanes_(lanes), next_(static_cast<size_t>(ranks), first % lanes) {}

  int next(int rank) {
    int& next = next_[static_cast<size_t>(rank)];
    const int lane = next;
    next = (next + 1) % lanes_;
    return lane;
  }

 private:
  int lanes_;
  std::vector<int> next_;
};

}  // namespace stretto
