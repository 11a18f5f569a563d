// The add warps of a mover at tasks of rows that choose experts: partitions, weighted sums, and
// rows that go where they are needed. All numbers of tables are looked at before they are used:
// whatever stands there, nothing outside a region is read or written.
#pragma once

#include "stretto/device/mover_look_ups.h"
#include "stretto/device/routing.h"

namespace stretto::device {

// Threads that make a partition: all add warps, or as many whole warps as the ring has room for
// what they count; 0: not even one has.
STRETTO_HOST_DEVICE uint32 partition_workers(int32 experts) {
  uint32 workers = kAddWarps * 32;
  const auto room = static_cast<int64>(kMoverStages * kStageBytes / 4);
  while (workers != 0 && partition_scratch(experts, static_cast<int32>(workers)) > room) {
    workers -= 32;
  }
  return workers;
}

#ifdef STRETTO_DEVICE

// Whether a row's ids name one of `count` experts from `first` on. The whole warp calls it.
STRETTO_DEVICE bool chooses(const MoverRegion& ids, uint32 row, uint32 top_k, uint32 first,
                            uint32 count) {
  bool any = false;
  for (uint32 slot = threadIdx.x % 32; slot < top_k; slot += 32) {
    any = any || static_cast<uint32>(number_at(ids, row, slot)) - first < count;
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
        from_(regions),
        to_(regions + task.num_sources),
        bad_ids_(bad_ids) {}

  STRETTO_DEVICE void run() const {
    if (routed_.kind == RoutedKind::route) {
      partition();
    } else if (routed_.kind == RoutedKind::dispatch) {
      dispatch();
    } else if (!routed_.vectors) {
      each_piece<1>([&](uint32 row, uint32 column) { sum_element(row, column); });
    } else if (task_.from == MoverType::bf16) {
      each_piece<8>([&](uint32 row, uint32 column) { sum_eight<MoverType::bf16>(row, column); });
    } else if (task_.from == MoverType::fp16) {
      each_piece<8>([&](uint32 row, uint32 column) { sum_eight<MoverType::fp16>(row, column); });
    } else {
      each_piece<8>([&](uint32 row, uint32 column) { sum_eight<MoverType::fp32>(row, column); });
    }
  }

 private:
  // Rows by 32 times so many columns, each by one warp, whose lanes have so many columns.
  template <uint32 kOfLane, class Act>
  STRETTO_DEVICE void each_piece(Act act) const {
    constexpr uint32 kColumns = 32 * kOfLane;
    const uint32 across = (task_.columns + kColumns - 1) / kColumns;
#pragma unroll 1
    for (uint32 at = threadIdx.x / 32; at < task_.rows * across; at += kAddWarps) {
      act(at / across, at % across * kColumns + threadIdx.x % 32 * kOfLane);
    }
  }

  // What is added up to a row, each lane one.
  struct Term {
    uint64 row = 0;  // address of its first column
    float weight = 1;
    bool is_there = false;
  };
  STRETTO_DEVICE uint32 num_terms() const {
    if (routed_.kind == RoutedKind::reduce) return task_.num_sources;
    return routed_.kind == RoutedKind::merge ? task_.num_sources - 1u : routed_.top_k;
  }
  STRETTO_DEVICE Term term(uint32 row, uint32 number) const {
    Term term;
    if (number >= num_terms()) return term;
    if (routed_.kind == RoutedKind::reduce) {
      term.is_there = true;
      term.row = from_[number].address + row * from_[number].row_bytes;
    } else if (routed_.kind == RoutedKind::merge) {  // sources: IDS, then a region of each rank
      const ExpertShares shares{static_cast<int32>(routed_.experts),
                                static_cast<int32>(task_.num_sources - 1u)};
      const auto first = static_cast<uint32>(shares.begin(static_cast<int32>(number)));
      const auto own = static_cast<uint32>(shares.size(static_cast<int32>(number)));
      for (uint32 slot = 0; slot < routed_.top_k; ++slot) {
        const auto id = static_cast<uint32>(number_at(from_[0], row, slot));
        term.is_there = term.is_there || id - first < own;
      }
      term.row = from_[1 + number].address + row * from_[1 + number].row_bytes;
    } else {  // sources: WEIGHTS, ROWS, Y
      const auto from = static_cast<uint32>(number_at(from_[1], row * routed_.top_k + number));
      term.is_there = from < routed_.table_rows;
      term.row = from_[2].address + from * from_[2].row_bytes;
      const uint64 at = address_in(from_[0], row, number, routed_.weights);
      term.weight = load_element(at, routed_.weights);
    }
    return term;
  }

  // Calls add(terms that are there, by lane; the lane's term) for up to 32 terms at once, in order,
  // by the whole warp. Whether the row is one to store.
  template <class Add>
  STRETTO_DEVICE bool each_terms(uint32 row, Add add) const {
    bool any = routed_.kind != RoutedKind::combine;
#pragma unroll 1
    for (uint32 first = 0; first < num_terms(); first += 32) {
      const Term own = term(row, first + threadIdx.x % 32);
      const uint32 there = __ballot_sync(0xffffffffu, own.is_there);
      any = any || there != 0;
      add(there, own);
    }
    return any;
  }

  template <MoverType kFrom>
  STRETTO_DEVICE void sum_eight(uint32 row, uint32 column) const {
    constexpr uint32 kAtOnce = kFrom == MoverType::fp32 ? 2 : 4;
    const bool has_columns = column < task_.columns;
    const uint32 across = column * bytes_of(kFrom);
    float sums[8] = {};
    const bool any = each_terms(row, [&](uint32 left, const Term& own) {
#pragma unroll 1
      while (left != 0) {
        EightOf<kFrom> terms[kAtOnce];
        float weights[kAtOnce];
        const uint32 count = __popc(left);
#pragma unroll
        for (uint32 i = 0; i < kAtOnce; ++i) {
          const int lane = left != 0 ? __ffs(static_cast<int>(left)) - 1 : 0;
          const uint64 from = __shfl_sync(0xffffffffu, own.row, lane);
          weights[i] = __shfl_sync(0xffffffffu, own.weight, lane);
          if (left != 0 && has_columns) terms[i].load(from + across);
          left &= left - 1;
        }
#pragma unroll
        for (uint32 i = 0; i < kAtOnce; ++i) {
          if (i >= count) continue;
          float values[8];
          terms[i].widen(values);
#pragma unroll
          for (uint32 j = 0; j < 8; ++j) sums[j] = fmaf(weights[i], values[j], sums[j]);
        }
      }
    });
    if (!any || !has_columns) return;
#pragma unroll 1
    for (uint32 d = 0; d < task_.num_destinations; ++d) {
      const uint64 address = address_in(to_[d], row, column, task_.to);
      const EightRounded eight = round_eight(task_.to, sums);
      store_vector(address, eight.low);
      if (task_.to == MoverType::fp32) store_vector(address + 16, eight.high);
    }
  }

  STRETTO_DEVICE void sum_element(uint32 row, uint32 column) const {
    const bool has_column = column < task_.columns;
    float sum = 0;
    const bool any = each_terms(row, [&](uint32 left, const Term& own) {
#pragma unroll 1
      for (; left != 0; left &= left - 1) {
        const int lane = __ffs(static_cast<int>(left)) - 1;
        const uint64 from = __shfl_sync(0xffffffffu, own.row, lane);
        const float weight = __shfl_sync(0xffffffffu, own.weight, lane);
        if (!has_column) continue;
        sum = fmaf(weight, load_element(from + uint64{column} * bytes_of(task_.from), task_.from),
                   sum);
      }
    });
    if (!any || !has_column) return;
#pragma unroll 1
    for (uint32 d = 0; d < task_.num_destinations; ++d) store(d, row, column, sum);
  }
  STRETTO_DEVICE void store(uint32 d, uint32 row, uint32 column, float value) const {
    store_element(address_in(to_[d], row, column, task_.to), task_.to, value);
  }

  // Sources: X, IDS. A row by each warp.
  STRETTO_DEVICE void dispatch() const {
    constexpr uint32 kAtOnce = 4;
    const uint32 lane = threadIdx.x % 32;
#pragma unroll 1
    for (uint32 row = threadIdx.x / 32; row < task_.rows; row += kAddWarps) {
      if (!chooses(from_[1], row, routed_.top_k, routed_.first_expert, routed_.own_experts)) {
        continue;
      }
      if (routed_.vectors && task_.from == task_.to) {
        const uint64 from = from_[0].address + row * from_[0].row_bytes;
        const uint64 to = to_[0].address + row * to_[0].row_bytes;
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
        continue;
      }
      for (uint32 column = lane; column < task_.columns; column += 32) {
        const uint64 from = address_in(from_[0], row, column, task_.from);
        store(0, row, column, load_element(from, task_.from));
      }
    }
  }

  // Source: IDS, whose rows follow one another. Destinations: CHOICES, EXPERTS, ROWS, COUNTS. The
  // ring is free: the block's other tasks do not use it.
  STRETTO_DEVICE void partition() const {
    constexpr uint32 kBarrier = 2;
    extern __shared__ uint8 shared_memory[];
    const uint32 worker = threadIdx.x;
    if (worker >= routed_.workers) return;
    const auto table = [](uint64 address) { return reinterpret_cast<int32*>(address); };
    int32* const counts = table(to_[3].address);
    const auto own = static_cast<int32>(routed_.own_experts);
    const Choices<int32> choices{table(from_[0].address),
                                 static_cast<int32>(task_.rows * routed_.top_k),
                                 1,
                                 static_cast<int32>(routed_.experts),
                                 static_cast<int32>(routed_.first_expert),
                                 own};
    const Partition to{static_cast<int32>(routed_.table_rows / routed_.entries),
                       static_cast<int32>(routed_.entries),
                       table(to_[0].address),
                       table(to_[1].address),
                       table(to_[2].address),
                       counts,
                       counts + own};
    group_barrier(kBarrier, routed_.workers);  // a partition before this one is made
    make_partition(choices, to, reinterpret_cast<int32*>(shared_memory), static_cast<int32>(worker),
                   static_cast<int32>(routed_.workers),
                   [&] { group_barrier(kBarrier, routed_.workers); });
    if (worker == 0 && bad_ids_ != nullptr) {
      add_relaxed_sys(bad_ids_, static_cast<uint32>(counts[own]));
    }
  }

  const MoverTask& task_;
  const RoutedTask& routed_;
  const MoverRegion* from_;
  const MoverRegion* to_;
  uint64* bad_ids_;
};

// Task `number` of a mover's table; `regions` are those of the run. No part of its caller, so that
// it takes no registers of other tasks.
__device__ __noinline__ void move_routed(const MoverParams& params, uint32 number,
                                         const MoverRegion* regions) {
  const MoverTask& task = params.tasks[number];
  const RoutedTask& routed = params.routed[task.routed - 1];
  if (routed.kind == RoutedKind::embed || routed.kind == RoutedKind::embed_mean) {
    return look_up_rows(params, number, regions);
  }
  RoutedMover(task, routed, regions + task.first_region, params.bad_ids).run();
}

#endif  // STRETTO_DEVICE

}  // namespace stretto::device
