// What a GEMM kernel gets that norms rows behind its tiles (gemm_rows.h).
#pragma once

#include "stretto/device/gemm_task.h"
#include "stretto/device/mover_task.h"

namespace stretto::device {

struct GemmRowsParams {
  GemmParams gemm;
  MoverParams rows;  // block by block, of those with tiles; every task norms, or only waits
};

// Vectors of 16 bytes that a thread of a consumer keeps of a row.
inline constexpr uint32 kEightsOfTileRows = 8;

}  // namespace stretto::device
