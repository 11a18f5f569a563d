// The add warps of a mover at tasks of rows that choose experts: partitions, rows that go where
// they are needed, and sums. All numbers of tables are looked at before they are used: whatever
// stands there, nothing outside a region is read or written.
#pragma once

#include "stretto/device/mover_routed_sums.h"
#include "stretto/device/warp_worker.h"

namespace stretto::device {

#ifdef STRETTO_DEVICE

// Whether a row's ids name an expert of who is sent to. The whole warp calls it.
STRETTO_DEVICE bool chooses(const RoutedTask& routed, const MoverRegion& ids, uint32 row) {
  bool any = false;
  for (uint32 slot = threadIdx.x % 32; slot < routed.top_k; slot += 32) {
    any = any || names_one(routed, ids, row, slot, routed.first_expert, routed.own_experts);
  }
  return __any_sync(0xffffffffu, any);
}

// A task of routed rows, by all add warps.
class RoutedMover {
 public:
  STRETTO_DEVICE RoutedMover(const MoverTask& task, const RoutedTask& routed,
                             const MoverRegion* regions, uint64* bad_ids)
      : task_(task),
        routed_(routed),
        tables_(RoutedTables::of(task, routed, regions)),
        from_(tables_.from),
        to_(tables_.to),
        bad_ids_(bad_ids) {}

  STRETTO_DEVICE void run() const {
    if (makes_partition(routed_.kind)) {
      partition();
    } else if (routed_.kind == RoutedKind::dispatch) {
      dispatch();
    } else if (routed_.kind == RoutedKind::permute) {
      permute();
    } else if (routed_.kind == RoutedKind::sum_counts) {
      sum_counts();
    } else {
      RoutedSums(tables_).run();
    }
  }

 private:
  STRETTO_DEVICE void store(uint32 d, uint32 row, uint32 column, float value) const {
    store_element(address_in(to_[d], row, column, task_.to), task_.to, value);
  }

  // Sources: X, IDS. A row by each warp.
  STRETTO_DEVICE void dispatch() const {
#pragma unroll 1
    for (uint32 row = threadIdx.x / 32; row < task_.rows; row += kAddWarps) {
      if (!chooses(routed_, from_[1], row)) continue;
      move_row(from_[0], row, 0, row);
    }
  }

  // Sources: CHOICES, X. Each warp has so many rows, as far apart as there are warps, and looks at
  // all of their choices at once. What is by choice goes to the choice's row.
  STRETTO_DEVICE void permute() const {
    const uint32 lane = threadIdx.x % 32;
#pragma unroll 1
    for (uint32 first = threadIdx.x / 32; first < task_.rows; first += kAddWarps * 32) {
      const uint32 own = first + lane * kAddWarps;
      const int32 choice = own < task_.rows ? number_at(from_[0], own) : -1;
      const PermutedRow moved = tables_.permuted(choice, own);
      uint32 left = __ballot_sync(0xffffffffu, moved.is_there);
#pragma unroll 1
      for (; left != 0; left &= left - 1) {
        const int at = __ffs(static_cast<int>(left)) - 1;
        const uint32 row = __shfl_sync(0xffffffffu, moved.from, at);
        const uint32 to = __shfl_sync(0xffffffffu, moved.to, at);
#pragma unroll 1
        for (uint32 d = 0; d < task_.num_destinations; ++d) move_row(from_[1], row, d, to);
      }
    }
  }

  // A row by each thread.
  STRETTO_DEVICE void sum_counts() const {
#pragma unroll 1
    for (uint32 row = threadIdx.x; row < task_.rows; row += kAddWarps * 32) {
      const int32 sum = tables_.sum_of_counts(row);
#pragma unroll 1
      for (uint32 d = 0; d < task_.num_destinations; ++d) tables_.store_number(to_[d], row, sum);
    }
  }

  // By a warp.
  STRETTO_DEVICE void move_row(const MoverRegion& source, uint32 from_row, uint32 destination,
                               uint32 to_row) const {
    constexpr uint32 kAtOnce = 4;
    const uint32 lane = threadIdx.x % 32;
    if (routed_.vectors && task_.from == task_.to) {
      const uint64 from = source.address + from_row * source.row_bytes;
      const uint64 to = to_[destination].address + to_row * to_[destination].row_bytes;
      const uint32 bytes = task_.columns * bytes_of(task_.from);
#pragma unroll 1
      for (uint32 at = lane * 16; at < bytes; at += kAtOnce * 512) {
        Vec16 part[kAtOnce];
#pragma unroll
        for (uint32 i = 0; i < kAtOnce; ++i) {
          if (at + i * 512 < bytes) part[i] = load_vector(from + at + i * 512);
        }
#pragma unroll
        for (uint32 i = 0; i < kAtOnce; ++i) {
          if (at + i * 512 < bytes) store_vector(to + at + i * 512, part[i]);
        }
      }
      return;
    }
    for (uint32 column = lane; column < task_.columns; column += 32) {
      const uint64 from = address_in(source, from_row, column, task_.from);
      store(destination, to_row, column, load_element(from, task_.from));
    }
  }

  // The ring is free: the block's other tasks do not use it.
  STRETTO_DEVICE void partition() const {
    constexpr uint32 kBarrier = 2;
    extern __shared__ uint8 shared_memory[];
    const uint32 worker = threadIdx.x / 32, threads = routed_.workers * 32;
    if (worker >= routed_.workers) return;
    const Partition to = tables_.partition();
    group_barrier(kBarrier, threads);  // a partition before this one is made
    const auto scratch = reinterpret_cast<int32*>(shared_memory);
    const PartitionTeam team{static_cast<int32>(worker), static_cast<int32>(routed_.workers),
                             [=] { group_barrier(kBarrier, threads); }};
    if (routed_.kind == RoutedKind::fill_entries) {
      const PlacedChoices placed{tables_.part_counts(from_[0]),
                                 static_cast<int32>(routed_.own_experts), tables_.rows_of_choices(),
                                 static_cast<int32>(task_.rows)};
      fill_entries<WarpWorker>(placed, static_cast<int32>(routed_.part), to, scratch, team);
      return;
    }
    make_partition<WarpWorker>(tables_.choices(), to, scratch, team);
    if (routed_.kind == RoutedKind::place_choices || bad_ids_ == nullptr) return;
    team.meet();  // one thread has written how many are bad
    if (threadIdx.x == 0) add_relaxed_sys(bad_ids_, static_cast<uint32>(*to.bad_ids));
  }

  const MoverTask& task_;
  const RoutedTask& routed_;
  const RoutedTables tables_;
  const MoverRegion* const from_;
  const MoverRegion* const to_;
  uint64* bad_ids_;
};

#endif  // STRETTO_DEVICE

}  // namespace stretto::device
