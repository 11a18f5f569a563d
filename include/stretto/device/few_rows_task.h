// Products of few rows whose blocks send what they have multiplied: what the kernel is specialised
// on, and where rows go.
//
// c = a * b^T, of which a has few rows (tokens) and b, the weights, as many as c has columns. The
// time is that of reading weights, so every SM reads some: weights are wgmma's A, in tiles of up to
// 64 columns, and tokens its B, in units of 16 rows. One consumer takes a time for a K block that
// hardly depends on rows, so two of them take blocks in turns. Where tiles are few the blocks of a
// cluster take a range of K each, with a consumer each. Their sums are added in the order of ranges
// and then of turns: bits depend on the configuration only.
//
// A finished vector of 16 bytes goes into the slots of a collective whose data says itself that it
// has come (lang/kernels/slots.h), at each rank that takes it, this one too. So no kernel has to
// read what was multiplied and send it, and whoever adds up need not wait for this kernel's end.
#pragma once

#include "stretto/device/gemm_task.h"
#include "stretto/device/lang/gpu_world.h"

namespace stretto::device {

// Where this rank's vectors go.
//
// They may go there in call e of the collective before its kernel has begun: the stream has ended
// call e - 1, in which all ranks have said that they had ended call e - 2, hence poisoned the slots
// of this parity again (lang/kernels/call.h).
struct RowTargets {
  uint64 slots[kMaxRanks];  // by rank: where vector 0 goes there in a call of parity 0, as this
                            // rank reaches it
  uint64 parity_bytes;      // from there to those of a call of parity 1
  // This rank's calls of the collective so far: its parity says which. Null where no collective
  // follows: then rows of the result are at slots[0], with their negative zeros.
  const uint64* state;
  uint32 part_rows;    // a rank takes its own rows, so many each; 0: all take all
  uint32 row_vectors;  // of a row of the product
};

struct FewRowsConfig {
  int32 columns = 64;       // of weights in a tile: a multiple of 8 up to 64
  int32 rows = 64;          // of tokens: a multiple of kFewRowsUnit up to kMostFewRows
  int32 stages = 8;         // K blocks in flight
  int32 consumers = 2;      // that take K blocks in turns: 1 or 2
  int32 splits = 1;         // ranges of K, one a block of a cluster
  int32 blocks_per_sm = 1;  // 1 or 2, that registers leave room for
  bool bf16 = true;         // else fp16

  constexpr bool operator==(const FewRowsConfig&) const = default;
};

inline constexpr int32 kFewRowsUnit = 16;  // rows of a tile are a multiple of it
inline constexpr int32 kMostFewRows = 128;
inline constexpr int32 kFewRowsColumns = 64;  // that wgmma multiplies, whatever a tile has
inline constexpr int32 kMostSplits = 4;

struct FewRowsLayout {
  int32 threads;
  int32 a_bytes, b_bytes;  // of a stage: weights, tokens
  int32 pitch;             // floats from a row of sums to the next: no two lanes share a bank
  int32 sum_bytes;         // of a consumer, where stages were
  int32 shared_bytes;
};

STRETTO_HOST_DEVICE FewRowsLayout layout_of(const FewRowsConfig& config) {
  FewRowsLayout layout{};
  layout.threads = config.consumers * kWarpgroup + 64;
  layout.a_bytes = kFewRowsColumns * kTileK * 2;
  layout.b_bytes = config.rows * kTileK * 2;
  layout.pitch = kFewRowsColumns + 4;
  layout.sum_bytes = config.rows * layout.pitch * 4;
  const int32 stages = config.stages * (layout.a_bytes + layout.b_bytes);
  const int32 sums = config.consumers * layout.sum_bytes;
  layout.shared_bytes = 1024 + (stages > sums ? stages : sums) + config.stages * 16;
  return layout;
}

struct FewRowsParams {
  TensorMap weights, tokens;
  RowTargets targets;
  uint32 rows, columns;  // of the product
  uint32 num_k;          // blocks of kTileK
  int32 rank, ranks;     // of targets
  // The kernel ahead on the stream does not write weights: they may come before it has ended.
  uint32 weights_early;
};

}  // namespace stretto::device
