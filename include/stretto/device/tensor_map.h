// The description of a tensor that TMA works from: CUtensorMap, made by the host.
#pragma once

#include "stretto/device/types.h"

namespace stretto::device {

struct alignas(64) TensorMap {
  uint64 opaque[16];
};
static_assert(sizeof(TensorMap) == 128);

}  // namespace stretto::device
