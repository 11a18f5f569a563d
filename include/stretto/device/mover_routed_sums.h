// Sums of the rows that tables name, by the add warps of a mover: of a token's choices by their
// weights, of what ranks have sent, or of plain regions beside them.
#pragma once

#include "stretto/device/mover_look_ups.h"
#include "stretto/device/routed_tables.h"

namespace stretto::device {

#ifdef STRETTO_DEVICE

STRETTO_DEVICE void add_weighted(MoverType type, float weight, const Vec16& part, float* sums) {
  float values[8];
  widen_eight(type, {part, {}}, values);
#pragma unroll
  for (uint32 j = 0; j < 8; ++j) sums[j] = fmaf(weight, values[j], sums[j]);
}

// Where the task has such columns.
STRETTO_DEVICE void store_eight_to_each(const MoverTask& task, const MoverRegion* to, uint32 row,
                                        uint32 column, const float* sums) {
  if (column >= task.columns) return;
  const EightRounded eight = round_eight(task.to, sums);
#pragma unroll 1
  for (uint32 d = 0; d < task.num_destinations; ++d) {
    const uint64 address = address_in(to[d], row, column, task.to);
    store_vector(address, eight.low);
    if (task.to == MoverType::fp32) store_vector(address + 16, eight.high);
  }
}

// By kAddWarps warps.
class RoutedSums {
 public:
  STRETTO_DEVICE explicit RoutedSums(const RoutedTables& tables)
      : tables_(tables), task_(tables.task), routed_(tables.routed), to_(tables.to) {}

  STRETTO_DEVICE void run() const {
    const uint32 pieces = pieces_at_once();
    if (!routed_.vectors) {
      each_sum(1, 1, [&](Terms& terms, uint32 column) { sum_element(terms, column); });
    } else if (pieces != 1) {
      each_sum(8, pieces, [&](Terms& terms, uint32 column) {
        uint32 at = bring(terms, column, pieces);
#pragma unroll 1
        for (uint32 piece = 0; piece < pieces; ++piece) sum_eight(terms, column + piece * 256, at);
      });
    } else {
      each_sum(8, 1, [&](Terms& terms, uint32 column) {
        uint32 at = kNotBrought;
        sum_eight(terms, column, at);
      });
    }
  }

 private:
  // Up to 32 terms of a row, each looked up by a lane.
  struct Terms {
    uint32 row;
    uint32 first;  // number of lane 0's; ~0: none is looked up yet
    RoutedTerm own;
  };

  // Calls act(terms of a row, the lane's first column) by whole warps, whose lanes have so many
  // columns of a piece, and so many pieces at once. A warp has all pieces of a row, so that its
  // terms are looked up once, or some share a row where all are through sooner so.
  template <class Act>
  STRETTO_DEVICE void each_sum(uint32 of_lane, uint32 pieces_at_once, Act act) const {
    const uint32 width = 32 * of_lane * pieces_at_once;
    const uint32 across = (task_.columns + width - 1) / width;
    const uint32 rows = task_.rows;
    uint32 shift = 0, least = ~0u;  // of warps to a row, a power of two
#pragma unroll 1
    for (uint32 i = 0; i < 5; ++i) {
      const uint32 turns = ((rows << i) + kAddWarps - 1) / kAddWarps;
      const uint32 pieces = turns * ((across + (1u << i) - 1) >> i);
      if (pieces < least) least = pieces, shift = i;
    }
    const uint32 warp = threadIdx.x / 32;
#pragma unroll 1
    for (Terms terms{warp >> shift, ~0u, {}}; terms.row < rows; terms.row += kAddWarps >> shift) {
      terms.first = ~0u;
#pragma unroll 1
      for (uint32 column = (warp & ((1u << shift) - 1)) * width; column < task_.columns;
           column += width << shift) {
        act(terms, column + threadIdx.x % 32 * of_lane);
      }
    }
  }

  STRETTO_DEVICE void look_up(Terms& terms, uint32 first) const {
    if (terms.first == first) return;
    terms.first = first;
    terms.own = tables_.term(terms.row, first + threadIdx.x % 32);
  }

  // Calls add(terms that are there, by lane; the lane's term) for up to 32 terms at once, in order,
  // by the whole warp. Whether the row is one to store.
  template <class Add>
  STRETTO_DEVICE bool each_terms(Terms& terms, Add add) const {
    bool any = stores_all();
#pragma unroll 1
    for (uint32 first = 0; first < tables_.num_terms(); first += 32) {
      look_up(terms, first);
      const uint32 there = __ballot_sync(0xffffffffu, terms.own.is_there);
      any = any || there != 0;
      add(there, terms.own);
    }
    return any;
  }

  // Whether rows without terms are stored too.
  STRETTO_DEVICE bool stores_all() const { return routed_.kind != RoutedKind::combine; }

  // Four vectors at once, in registers that a mover has: a term's eight elements are one of them,
  // or two of fp32. One code for all types, since the compiler keeps what it knows of each kind of
  // task in registers of all. Where terms were brought, they are from `at` on, which moves on
  // behind them.
  STRETTO_DEVICE void sum_eight(Terms& terms, uint32 column, uint32& at) const {
    const bool has_columns = column < task_.columns, is_wide = task_.from == MoverType::fp32;
    const uint32 across = column * bytes_of(task_.from);
    float sums[8] = {};
    const bool any = each_terms(terms, [&](uint32 left, const RoutedTerm& own) {
#pragma unroll 1
      while (left != 0) {
        Vec16 part[4];
        uint32 to_add = left;
#pragma unroll
        for (uint32 i = 0; i < 4; ++i) {
          const bool is_second = is_wide && i % 2 != 0;
          if (at != kNotBrought) {
            if (left != 0) part[i] = load_shared_vector(at), at += kLineBytes;
          } else {
            const uint64 from =
                __shfl_sync(0xffffffffu, own.row, __ffs(static_cast<int>(left)) - 1);
            const uint64 address = from + across + (is_second ? 16 : 0);
            if (left != 0 && has_columns) part[i] = load_vector(address);
          }
          if (!is_wide || is_second) left &= left - 1;
        }
#pragma unroll
        for (uint32 i = 0; i < 4; ++i) {
          if (to_add == 0) break;
          const int lane = __ffs(static_cast<int>(to_add)) - 1;
          const float weight = __shfl_sync(0xffffffffu, own.weight, lane);
          if (is_wide) {
#pragma unroll
            for (uint32 j = 0; j < 4; ++j) {
              float& sum = sums[i % 2 * 4 + j];
              sum = fmaf(weight, float_of_bits(part[i].word[j]), sum);
            }
          } else {
            add_weighted(task_.from, weight, part[i], sums);
          }
          if (!is_wide || i % 2 != 0) to_add &= to_add - 1;
        }
      }
    });
    if (any) store_eight_to_each(task_, to_, terms.row, column, sums);
  }

  // How many pieces of a row come at once to the ring's memory, where no task of the block takes
  // it: as many as have room for a vector of each lane and term. 1: none does.
  STRETTO_DEVICE uint32 pieces_at_once() const {
    if (routed_.vectors != 2 || task_.from == MoverType::fp32) return 1;
    const uint32 room = kWarpBytes / (kLineBytes * tables_.num_terms());
    return room < 2 || task_.columns < room * 256 ? 1 : room;
  }

  // Loads to registers keep too few bytes on their way for memory's rate; so all terms of some
  // pieces come at once. Each lane copies what it adds itself. Where they lie.
  STRETTO_DEVICE uint32 bring(Terms& terms, uint32 column, uint32 pieces) const {
    extern __shared__ uint8 shared_memory[];
    look_up(terms, 0);
    const uint32 there = __ballot_sync(0xffffffffu, terms.own.is_there);
    const uint32 first =
        shared_address(shared_memory) + threadIdx.x / 32 * kWarpBytes + threadIdx.x % 32 * 16;
    uint32 at = first;
#pragma unroll 1
    for (uint32 piece = 0; piece < pieces; ++piece, column += 256) {
      const uint32 bytes = column < task_.columns ? 16 : 0;
      const uint64 across = bytes != 0 ? uint64{column} * 2 : 0;
#pragma unroll 1
      for (uint32 left = there; left != 0;) {
        uint64 from[4];
        uint32 count = 0;
#pragma unroll
        for (uint32 i = 0; i < 4; ++i) {
          from[i] = __shfl_sync(0xffffffffu, terms.own.row, __ffs(static_cast<int>(left)) - 1);
          count += left != 0;
          left &= left - 1;
        }
#pragma unroll
        for (uint32 i = 0; i < 4; ++i) {
          if (i < count) copy_async_or_zero(at + i * kLineBytes, from[i] + across, bytes);
        }
        at += count * kLineBytes;
      }
    }
    await_copies();
    return first;
  }

  STRETTO_DEVICE void sum_element(Terms& terms, uint32 column) const {
    const bool has_column = column < task_.columns;
    float sum = 0;
    const bool any = each_terms(terms, [&](uint32 left, const RoutedTerm& own) {
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
    for (uint32 d = 0; d < task_.num_destinations; ++d) {
      store_element(address_in(to_[d], terms.row, column, task_.to), task_.to, sum);
    }
  }

  static constexpr uint32 kNotBrought = ~0u;
  // A vector of each lane; of the ring's memory, a warp's.
  static constexpr uint32 kLineBytes = 512, kWarpBytes = kMoverStages * kStageBytes / kAddWarps;

  const RoutedTables& tables_;
  const MoverTask& task_;
  const RoutedTask& routed_;
  const MoverRegion* const to_;
};

#endif  // STRETTO_DEVICE

}  // namespace stretto::device
