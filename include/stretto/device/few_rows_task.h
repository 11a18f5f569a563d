// Products of few rows whose blocks send what they have multiplied: what the kernel is specialised
// on, and where rows go.
//
// c = a * b^T, of which a has few rows (tokens) and b, the weights, as many as c has columns. The
// time is that of reading weights, so every SM reads some: weights are wgmma's A, in tiles of 64 or
// 128 columns, and tokens its B, in units of 16 rows. Every tile needs all tokens, which L2 has and
// gives no faster than weights: blocks of a cluster that share tokens load a part each, for all of
// them. Where column tiles are few, blocks of a cluster take ranges of K, and add them up through
// each other's shared memory in the order of K: bits depend on the configuration only.
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
  const uint64* state;      // this rank's calls of the collective so far: its parity says which
  uint32 part_rows;         // a rank takes its own rows, so many each; 0: all take all
  uint32 row_vectors;       // of a row of the product
};

struct FewRowsConfig {
  int32 columns = 64;       // of weights in a tile: 64 or 128
  int32 rows = 64;          // of tokens in a tile: a multiple of 16 up to 256
  int32 stages = 6;         // K blocks in flight
  int32 splits = 1;         // ranges of K, one a block of a cluster,
  int32 sharing = 1;        // and blocks of it, of each range, that share tokens: 1, 2 or 4
  int32 blocks_per_sm = 2;  // 1 or 2, that registers leave room for
  bool bf16 = true;         // else fp16

  constexpr bool operator==(const FewRowsConfig&) const = default;
};

inline constexpr int32 kMostFewRows = 256;  // of a tile
inline constexpr int32 kMostCluster = 8;    // what every GPU with clusters has room for

struct FewRowsLayout {
  int32 threads, cluster;
  int32 a_bytes, b_bytes;  // of a stage: weights, tokens
  int32 pitch;             // floats from a row of sums to the next: no two lanes share a bank
  int32 shared_bytes;
};

STRETTO_HOST_DEVICE FewRowsLayout layout_of(const FewRowsConfig& config) {
  FewRowsLayout layout{};
  layout.threads = config.columns / 64 * kWarpgroup + 32;
  layout.cluster = config.splits * config.sharing;
  layout.a_bytes = config.columns * kTileK * 2;
  layout.b_bytes = config.rows * kTileK * 2;
  layout.pitch = config.columns + 4;
  const int32 stages = config.stages * (layout.a_bytes + layout.b_bytes);
  const int32 sums = config.rows * layout.pitch * 4;  // where stages were
  layout.shared_bytes = 1024 + (stages > sums ? stages : sums) + config.stages * 16;
  return layout;
}

struct FewRowsParams {
  TensorMap weights, tokens;
  RowTargets targets;
  uint32 rows, columns;  // of the product
  uint32 num_k;          // blocks of kTileK
  uint32 column_tiles;
  int32 rank, ranks;
};

}  // namespace stretto::device
