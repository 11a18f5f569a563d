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
// From some 128 rows on the time is that of multiplying, and of bringing tokens to every SM. Then
// tiles have up to 128 columns, a half for each consumer, and the blocks of a cluster share what
// they load: those of the same columns weights, those of the same rows tokens. Each loads a piece
// for all.
//
// Of a gate there are two weights: half of a tile's columns are of each, G's first, and what is
// stored of G and U is silu(G) * U. Sums of both, and others that something follows, are rounded
// behind it.
//
// Of more tiles than SMs each block has several, and where others take what it stores, warps that
// do nothing else send a tile while the next one is multiplied.
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
  int32 columns = 64;       // of weights in a tile: a multiple of 8 up to 64, or of 16 up to 128
  int32 rows = 64;          // of tokens in a tile: a multiple of kFewRowsUnit up to 256
  int32 stages = 8;         // K blocks in flight
  int32 consumers = 2;      // 1, or 2 that take K blocks in turns; beyond 64 columns a half each
  int32 splits = 1;         // ranges of K, one a block of a cluster
  int32 row_blocks = 1;     // blocks of a cluster that share weights; of one range of K
  int32 column_blocks = 1;  // blocks of a cluster that share tokens; the same
  int32 blocks_per_sm = 1;  // 1 or 2, that registers leave room for
  bool bf16 = true;         // else fp16
  Follower follower = Follower::none;  // what follows sums, behind a row of bias
  bool bias = false;
  int32 senders = 0;  // warps that send a tile beside the next; 0: all send a block's one

  constexpr bool operator==(const FewRowsConfig&) const = default;
  STRETTO_HOST_DEVICE bool is_wide() const { return columns > 64; }
  STRETTO_HOST_DEVICE int32 cluster() const { return splits * row_blocks * column_blocks; }
  STRETTO_HOST_DEVICE bool is_gated() const { return follower == Follower::swiglu; }
  STRETTO_HOST_DEVICE bool follows() const { return follower != Follower::none || bias; }
  STRETTO_HOST_DEVICE int32 stored_columns() const { return is_gated() ? columns / 2 : columns; }
  STRETTO_HOST_DEVICE bool shares() const { return row_blocks * column_blocks > 1; }
  STRETTO_HOST_DEVICE bool sends_beside() const { return senders > 0; }
};

inline constexpr int32 kFewRowsUnit = 16;  // rows of a tile are a multiple of it
inline constexpr int32 kMostRowsOfTile = 256;
inline constexpr int32 kMostFewRows = 512;    // of a product
inline constexpr int32 kMostSentRows = 2048;  // of one that is sent, a tile beside the next
inline constexpr int32 kSenders = 2;
inline constexpr int32 kFewRowsColumns = 64;  // that a consumer multiplies, whatever a tile has
inline constexpr int32 kMostSplits = 4;
inline constexpr int32 kMostSharing = 8;  // blocks of a cluster

struct FewRowsLayout {
  int32 threads;
  int32 a_bytes, b_bytes;  // of a stage: weights, tokens
  // Where stages were, or behind them where tiles follow. A consumer's sums as floats, which others
  // add to theirs, or which something follows; or, of other tiles, one array of rounded rows, in
  // which a half has as many columns as wgmma multiplies. Rows are so far apart that lanes which
  // store together share no bank.
  bool is_rounded;
  int32 row_bytes;
  int32 sum_bytes;  // of a consumer
  int32 kept;       // where they begin
  int32 barriers;   // where they begin
  int32 shared_bytes;
};

STRETTO_HOST_DEVICE FewRowsLayout layout_of(const FewRowsConfig& config) {
  FewRowsLayout layout{};
  layout.threads =
      config.consumers * kWarpgroup + (config.is_gated() ? 96 : 64) + config.senders * 32;
  const int32 behind = config.is_wide() ? config.columns / 2 : 0;  // the second half begins there
  layout.a_bytes = (behind + kFewRowsColumns) * kTileK * 2;
  layout.b_bytes = config.rows * kTileK * 2;
  layout.is_rounded =
      config.splits == 1 && (config.is_wide() || config.consumers == 1) && !config.follows();
  layout.row_bytes =
      layout.is_rounded ? config.consumers * kFewRowsColumns * 2 + 16 : (kFewRowsColumns + 4) * 4;
  layout.sum_bytes = config.rows * layout.row_bytes;
  const int32 stages = config.stages * (layout.a_bytes + layout.b_bytes);
  const int32 sums = (layout.is_rounded ? 1 : config.consumers) * layout.sum_bytes;
  layout.kept = config.sends_beside() ? stages : 0;
  const int32 all = stages > layout.kept + sums ? stages : layout.kept + sums;
  layout.barriers = all;
  layout.shared_bytes = 1024 + all + config.stages * 24 + 16;
  return layout;
}

struct FewRowsParams {
  TensorMap weights, tokens;
  TensorMap beside;  // of a gate: weights of U
  uint64 bias[2];    // rows of as many elements as columns, of G and of U; 0: none
  RowTargets targets;
  uint32 rows, columns;  // of what is stored
  uint32 num_k;          // blocks of kTileK
  uint32 row_groups;     // of row_blocks * rows each
  uint32 column_groups;  // of column_blocks * columns each
  // Which tiles are first. All rows of some columns; or, where owners take their rows, all columns
  // of some rows, the next rank's first and own ones last.
  uint32 by_rows, first_group;
  int32 rank, ranks;  // of targets
  // Weights may come before the kernel ahead on the stream has ended. That does not write them; and
  // it, or the product that sends what it receives, has waited for the stream before it let this
  // one start. So a kernel of the caller's that wrote weights just before them has ended.
  uint32 weights_early;
};

}  // namespace stretto::device
