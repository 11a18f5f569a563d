// The add warps of a mover at pooled look-ups: rows of tables, which indices pick, added up in the
// order of the indices. An index is looked at before it is used: what is no row of its table is
// left out and, unless it is -1, counted.
#pragma once

#include "stretto/device/mover_elements.h"

namespace stretto::device {

#ifdef STRETTO_DEVICE

// A task, by all add warps. Sources: IDS, W. A row and a table are a bag, which some lanes of a
// warp have, as many as its columns need.
class PooledMover {
 public:
  STRETTO_DEVICE PooledMover(const MoverTask& task, const RoutedTask& routed,
                             const MoverRegion* regions, uint64* bad_ids)
      : task_(task),
        routed_(routed),
        ids_(regions[0]),
        tables_(regions[1]),
        to_(regions + task.num_sources),
        bad_ids_(bad_ids) {}

  STRETTO_DEVICE void run() const {
    if (!routed_.vectors) {
      each_bag(
          1, [&](uint32 row, uint32 table, uint32 column) { return element(row, table, column); });
    } else {
      each_bag(8,
               [&](uint32 row, uint32 table, uint32 column) { return eight(row, table, column); });
    }
  }

 private:
  STRETTO_DEVICE uint32 columns_of_table() const { return task_.columns / routed_.entries; }

  // Calls act(row, table, first of so many columns), which returns how many indices were bad.
  // Numbers are made again, not kept, since registers are few.
  template <class Act>
  STRETTO_DEVICE void each_bag(uint32 of_lane, Act act) const {
    const uint32 columns = columns_of_table();
    uint32 lanes = 1;  // of a bag
    while (lanes < 32 && lanes * of_lane < columns) lanes *= 2;
#pragma unroll 1
    for (uint32 bag = threadIdx.x / lanes; bag < task_.rows * routed_.entries;
         bag += kAddWarps * 32 / lanes) {
#pragma unroll 1
      for (uint32 column = (threadIdx.x & (lanes - 1)) * of_lane; column < columns_of_table();
           column += lanes * of_lane) {
        const uint32 bad = act(bag / routed_.entries, bag % routed_.entries, column);
        if (column == 0 && bad != 0 && bad_ids_ != nullptr) add_relaxed_sys(bad_ids_, bad);
      }
    }
  }

  // What stands at a slot; -1 past the last one.
  STRETTO_DEVICE int32 index_at(uint32 row, uint32 table, uint32 slot) const {
    if (slot >= routed_.top_k) return -1;
    return id_at(ids_, routed_.wide_ids != 0, row, table * routed_.top_k + slot);
  }
  STRETTO_DEVICE bool is_row(int32 index) const {
    return static_cast<uint32>(index) < routed_.table_rows;
  }
  STRETTO_DEVICE uint64 row_at(uint32 table, int32 index) const {
    const uint64 row = uint64{table} * routed_.table_rows + static_cast<uint32>(index);
    return tables_.address + row * tables_.row_bytes;
  }
  STRETTO_DEVICE float scale(uint32 picked) const {
    const bool divides = routed_.kind == RoutedKind::embed_mean && picked > 1;
    return divides ? 1.0f / static_cast<float>(picked) : 1.0f;
  }

  // Four vectors at once: an index's eight elements are one of them, or two of fp32. One code for
  // all types, since the compiler keeps what it knows of each kind of task in registers of all.
  STRETTO_DEVICE uint32 eight(uint32 row, uint32 table, uint32 column) const {
    const bool is_wide = task_.from == MoverType::fp32;
    const uint32 at_once = is_wide ? 2 : 4, across = column * bytes_of(task_.from);
    float sums[8] = {};
    uint32 picked = 0, bad = 0;
#pragma unroll 1
    for (uint32 first = 0; first < routed_.top_k; first += at_once) {
      Vec16 part[4];
      int32 index[4];
#pragma unroll
      for (uint32 i = 0; i < 4; ++i) {
        index[i] = index_at(row, table, first + (is_wide ? i / 2 : i));
      }
#pragma unroll
      for (uint32 i = 0; i < 4; ++i) {
        const bool is_first = !is_wide || i % 2 == 0;
        if (is_row(index[i])) {
          picked += is_first;
          part[i] = load_vector(row_at(table, index[i]) + across + (is_first ? 0 : 16));
        } else {
          part[i] = {};  // what is not there adds zeros, which change no sum that began with one
          bad += is_first && index[i] != -1;
        }
      }
#pragma unroll
      for (uint32 i = 0; i < 4; ++i) {
        if (is_wide) {
#pragma unroll
          for (uint32 j = 0; j < 4; ++j) sums[i % 2 * 4 + j] += float_of_bits(part[i].word[j]);
        } else {
          float values[8];
          widen_eight(task_.from, {part[i], {}}, values);
#pragma unroll
          for (uint32 j = 0; j < 8; ++j) sums[j] += values[j];
        }
      }
    }
    const float factor = scale(picked);
#pragma unroll
    for (uint32 j = 0; j < 8; ++j) sums[j] *= factor;
    const EightRounded rounded = round_eight(task_.to, sums);
#pragma unroll 1
    for (uint32 d = 0; d < task_.num_destinations; ++d) {
      const uint64 at = address_in(to_[d], row, table * columns_of_table() + column, task_.to);
      store_vector(at, rounded.low);
      if (task_.to == MoverType::fp32) store_vector(at + 16, rounded.high);
    }
    return bad;
  }

  STRETTO_DEVICE uint32 element(uint32 row, uint32 table, uint32 column) const {
    float sum = 0;
    uint32 picked = 0, bad = 0;
#pragma unroll 1
    for (uint32 slot = 0; slot < routed_.top_k; ++slot) {
      const int32 index = index_at(row, table, slot);
      bad += !is_row(index) && index != -1;
      if (!is_row(index)) continue;
      ++picked;
      sum += load_element(row_at(table, index) + uint64{column} * bytes_of(task_.from), task_.from);
    }
    sum *= scale(picked);
#pragma unroll 1
    for (uint32 d = 0; d < task_.num_destinations; ++d) {
      store_element(address_in(to_[d], row, table * columns_of_table() + column, task_.to),
                    task_.to, sum);
    }
    return bad;
  }

  const MoverTask& task_;
  const RoutedTask& routed_;
  const MoverRegion ids_, tables_;
  const MoverRegion* to_;
  uint64* bad_ids_;
};

#endif  // STRETTO_DEVICE

}  // namespace stretto::device
