// The add warps of a mover at tasks that map: activations, of what is in registers.
#pragma once

#include "stretto/device/activations.h"
#include "stretto/device/mover_sum.h"

namespace stretto::device {

#ifdef STRETTO_DEVICE

// The same eights of a stage as add_stage(): silu of the sums is multiplied by them.
template <MoverType kFrom, int32 kSums>
STRETTO_DEVICE void multiply_stage(uint32 stage, uint32 first, uint32 step, float (&sums)[kSums]) {
  constexpr int32 kElements = FormatOf<kFrom>::kElements;
  constexpr uint32 kOfEight = 8 / kElements;  // 1 or 2
#pragma unroll
  for (int32 v = 0; v < kSums / kElements; ++v) {
    const uint32 eight = first + static_cast<uint32>(v) / kOfEight * step;
    const uint32 vector = eight * kOfEight + static_cast<uint32>(v) % kOfEight;
    float values[kElements] = {};
    FormatOf<kFrom>::add(values, load_shared_vector(stage + vector * 16));
#pragma unroll
    for (int32 j = 0; j < kElements; ++j) {
      sums[v * kElements + j] = silu_of(sums[v * kElements + j]) * values[j];
    }
  }
}

// Eight elements.
STRETTO_DEVICE void map_eight(MoverMap map, float* values) {
  if (map == MoverMap::gelu) {
#pragma unroll
    for (int32 j = 0; j < 8; ++j) values[j] = gelu_of(values[j]);
  } else if (map == MoverMap::silu) {
#pragma unroll
    for (int32 j = 0; j < 8; ++j) values[j] = silu_of(values[j]);
  }
}

STRETTO_DEVICE float element_in(uint64 address, MoverType type) {
  return widen_as(type, type == MoverType::fp32 ? *reinterpret_cast<const uint32*>(address)
                                                : *reinterpret_cast<const uint16*>(address));
}

// What one element of a task becomes. `regions` are its own.
STRETTO_DEVICE float map_element(const MoverTask& task, const MoverRegion* regions, uint32 row,
                                 uint32 column) {
  const auto source = [&](uint32 s) {
    return element_in(address_in(regions[s], row, column, task.from), task.from);
  };
  const float value = source(0);
  if (task.map == MoverMap::gelu) return gelu_of(value);
  return task.map == MoverMap::silu ? silu_of(value) : silu_of(value) * source(1);
}

#endif  // STRETTO_DEVICE

}  // namespace stretto::device
