// What our kernels were seen to do on H200s, beyond what a machine file says of the machine.
// Ratios, so that they hold for any machine. docs/simulation.md has the errors that remain.
#pragma once

#include <cstdint>

namespace stretto::sim {

// A tile's inputs come through the L2 cache. Tiles of 128 x 256, on all SMs, take this share of
// what it gives; smaller ones need more bytes for each multiplication and wait for them, in
// proportion to the SMs that are at it (tuning/h200x8.json, ag-gemm with n = 24576: 128 x 192
// takes 1.1 times as long, 128 x 128 1.2, 64 x 256 1.8; ag-gemm with 40 tiles of 128 x 128: no
// longer).
constexpr double kFeedOfFullTile = 0.95;
constexpr double kInputsOfFullTile = (128.0 + 256.0) / (128.0 * 256.0);

// Long GEMMs are held back by power: the share of gemm_tflops that runs of this many microseconds
// keep (bench/results/operators_h200_x4.json and gemm_h200_x1.json, GEMM alone in graphs of ten).
struct PowerPoint {
  double us, share;
};
constexpr PowerPoint kPower[] = {{350, 1.0}, {700, 0.93}, {1300, 0.90}, {1900, 0.86}};

// While epilogues keep a port full both ways, tiles take this many times as long: consumers hold
// their sums until the link takes them (tuning/h200x8.json, gemm-rs on 4 GPUs without
// communication SMs: half of the time that the link is busy is added).
constexpr double kEpilogueSlowdown = 1.5;

// A block that pushes beside running tiles takes longer by this share, in proportion to the SMs
// that run them (tuning/h200x8.json, gathers by 4 blocks: 142 GB/s under a GEMM, 177 without).
constexpr double kPushBesideGemm = 0.25;

// A communication block's release comes when most of what it has taken up since has left too, about
// its ring of stages; of short copies, which it completes before it sends more, somewhat less. With
// so much, gathers by blocks come out 8 % off instead of 11 (tuning/h200x8.json), and gathers in
// phases of K gain as much as was measured (docs/notes/k-phases.md).
constexpr double kTrailingBytes = 12 * 16384, kShortTrailingBytes = 8 * 16384;
constexpr double kShortCopyBytes = 8 * 16384;

// A reduce by a communication block reaches this share of what memory allows a block; less where
// rows of the tile do not fill the 512 bytes that a warp reads at once (tuning/h200x8.json,
// reductions with 4 communication SMs: 20 to 48 of 92 GB/s).
constexpr double kReduceShare = 0.25;
constexpr int64_t kWarpBytes = 512;

}  // namespace stretto::sim
