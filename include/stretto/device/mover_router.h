// The add warps of a mover at tasks that choose experts, weigh them or name their slices: a row by
// each warp.
#pragma once

#include "stretto/device/gate.h"
#include "stretto/device/mover_elements.h"
#include "stretto/device/routing.h"
#include "stretto/device/top_k.h"

namespace stretto::device {

// A row of such a task, by the lanes that have it; host code can make one too. Sources: S, and the
// bias or IDS; what is sliced alone. Destinations: IDS or WEIGHTS. What tables say is copied:
// behind every element that is looked at the compiler would look there again.
struct RouterRow {
  const MoverTask task;
  const RoutedTask routed;
  const uint64 scores, others;  // where the rows begin; there is one of bias
  const MoverRegion* const to;
  const uint32 row;

  STRETTO_PRIMITIVE RouterRow(const MoverTask& of, const RoutedTask& as, const MoverRegion* regions,
                              uint32 number)
      : task(of),
        routed(as),
        scores(row_of(regions[0], number)),
        others(
            row_of(regions[of.num_sources - 1u], as.kind == RoutedKind::biased_top_k ? 0 : number)),
        to(regions + of.num_sources),
        row(number) {}

  // Of scores of fp32, of which a lane has few, each is loaded once, and all at once.
  template <int32 kHeld = 0, class Lanes>
  STRETTO_PRIMITIVE void make(const Lanes& lanes) const {
    if (routed.kind >= RoutedKind::slice_ids) return make_slices(lanes);
    if (kHeld > 0 && task.from == MoverType::fp32 &&
        routed.experts <= static_cast<uint32>(kHeld * Lanes::kCount)) {
      make_of<kHeld>(lanes, [&](int32 expert) { return element(scores, expert, MoverType::fp32); });
    } else {
      make_of<0>(lanes, [&](int32 expert) { return element(scores, expert, task.from); });
    }
  }

 private:
  template <int32 kHeld, class Lanes, class Score>
  STRETTO_PRIMITIVE void make_of(const Lanes& lanes, Score score) const {
    const auto experts = static_cast<int32>(routed.experts);
    const auto top_k = static_cast<int32>(routed.top_k);
    if (routed.kind == RoutedKind::top_k || routed.kind == RoutedKind::biased_top_k) {
      const TopKRules rules{experts, top_k, static_cast<int32>(routed.entries),
                            static_cast<int32>(routed.own_experts),
                            routed.kind == RoutedKind::biased_top_k};
      choose_experts<kHeld>(
          lanes, rules, score,
          [&](int32 expert) { return element(others, expert, routed.weights); },
          [&](int32 slot, int32 expert) { put_number(slot, expert); });
      return;
    }
    const GateRules rules{experts, top_k, routed.kind == RoutedKind::softmax_gate,
                          routed.own_experts != 0, task.epsilon};
    weigh_experts<kHeld>(
        lanes, rules, score, [&](int32 slot) { return id_of(others, slot); },
        [&](int32 slot, float weight) { put_weight(slot, weight); });
  }

  template <class Lanes>
  STRETTO_PRIMITIVE void make_slices(const Lanes& lanes) const {
    const auto slices = static_cast<int32>(routed.own_experts);
    STRETTO_ROLLED
    for (int32 slot = lanes.index(); slot < static_cast<int32>(routed.top_k);
         slot += Lanes::kCount) {
      if (routed.kind == RoutedKind::slice_ids) {
        const int32 id = id_of(scores, slot / slices);
        put_number(slot, number_of_slice(id, static_cast<int32>(routed.experts), slot % slices));
      } else {
        put_weight(slot, element(scores, slot / slices, task.from));
      }
    }
  }
  STRETTO_PRIMITIVE void put_number(int32 slot, int32 number) const {
    for (uint32 d = 0; d < task.num_destinations; ++d) {
      *reinterpret_cast<int32*>(place(d, slot, 4)) = number;
    }
  }
  STRETTO_PRIMITIVE void put_weight(int32 slot, float weight) const {
    const uint32 rounded = round_as(task.to, weight);
    for (uint32 d = 0; d < task.num_destinations; ++d) {
      if (task.to == MoverType::fp32) {
        *reinterpret_cast<uint32*>(place(d, slot, 4)) = rounded;
      } else {
        *reinterpret_cast<uint16*>(place(d, slot, 2)) = static_cast<uint16>(rounded);
      }
    }
  }
  STRETTO_PRIMITIVE static uint64 row_of(const MoverRegion& region, uint32 row) {
    return region.address + row * region.row_bytes;
  }
  STRETTO_PRIMITIVE int32 id_of(uint64 ids, int32 column) const {
    return id_in(ids, routed.wide_ids != 0, static_cast<uint32>(column));
  }
  STRETTO_PRIMITIVE static float element(uint64 row, int32 column, MoverType type) {
    const uint64 at = row + static_cast<uint32>(column) * bytes_of(type);
    const uint32 bits = type == MoverType::fp32 ? *reinterpret_cast<const volatile uint32*>(at)
                                                : *reinterpret_cast<const volatile uint16*>(at);
    // By no branch, behind which the next one would have to wait for this one.
    const float narrow = type == MoverType::bf16 ? widen_as(MoverType::bf16, bits)
                                                 : widen_as(MoverType::fp16, bits & 0xffffu);
    return type == MoverType::fp32 ? float_of_bits(bits) : narrow;
  }
  STRETTO_PRIMITIVE uint64 place(uint32 d, int32 slot, uint32 bytes) const {
    return row_of(to[d], row) + static_cast<uint32>(slot) * bytes;
  }
};

#ifdef STRETTO_DEVICE

// Of rows of up to 32 times kHeld scores a lane keeps its own in registers.
template <int32 kHeld>
STRETTO_DEVICE void route_rows(const MoverTask& task, const RoutedTask& routed,
                               const MoverRegion* regions) {
#pragma unroll 1
  for (uint32 row = threadIdx.x / 32; row < task.rows; row += kAddWarps) {
    RouterRow(task, routed, regions, row).make<kHeld>(WarpLanes{});
  }
}

#endif  // STRETTO_DEVICE

}  // namespace stretto::device
