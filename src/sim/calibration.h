// What our kernels were seen to do on H200s, beyond what a machine file says of the machine.
// Ratios, so that they hold for any machine. docs/simulation.md has the errors that remain.
#pragma once

#include <cstdint>

namespace stretto::sim {

// What cuBLAS takes: its start, and then this share of gemm_tflops or what it reads at
// hbm_gb_per_s, whichever is longer (GEMM alone of operators_h200_x2 and _x4.json,
// other_shapes_h200_x2.json and 36 shapes of 16 to 256 rows: off by 3 % in the median, by 11 % in
// nine of ten).
constexpr double kLibraryStartUs = 2, kLibraryRate = 0.88;

// A tile's inputs come through the L2 cache. Tiles of 128 x 256, on all SMs, take this share of
// what it gives; smaller ones need more bytes for each multiplication and wait for them, in
// proportion to the SMs that are at it (tuning/h200x8.json: 128 x 128 takes 1.07 times as long,
// 128 x 64 1.6; ag-gemm with 40 tiles of 128 x 128: no longer). Those of 64 rows, which one warp
// group multiplies, take longer again (64 x 256 in all 1.6 to 1.8).
constexpr double kFeedOfFullTile = 0.8, kFeedOfOneGroup = 1.2;
constexpr double kInputsOfFullTile = (128.0 + 256.0) / (128.0 * 256.0);

// A tile that shares its columns of B with few others reads them from memory by itself: at this
// share of what a block that copies reads, and all tiles together at this share of what a copy of
// memory reaches (2 x H200, M = 16 to 256 in tiles of 64 x 64 to 128 x 128: 36 to 39 GB/s a tile up
// to 64 of them, 2.6 to 3.6 TB/s in all from 112 on).
constexpr double kStreamOfBlock = 0.42, kStreamOfAll = 0.82;

// GEMMs are held back by power: the share of gemm_tflops that runs of this many microseconds keep,
// one after the other (bench/results/gemm_h200_x1.json, our kernels alone in graphs of ten: 0.98 of
// what the machine file says at 44 us, 0.9 at 90 to 115, 0.83 to 0.88 from 120 to 1800). Beside
// collectives, in which the SMs rest, they keep more (GEMM alone of operators_h200_x4.json).
struct PowerPoint {
  double us, share;
};
constexpr PowerPoint kPower[] = {{60, 1.0}, {150, 0.87}, {1900, 0.86}};
constexpr PowerPoint kRestedPower[] = {{350, 1.0}, {700, 0.93}, {1300, 0.90}, {1900, 0.86}};

// While epilogues keep a port full both ways, tiles take this many times as long: consumers hold
// their sums until the link takes them (tuning/h200x8.json, gemm-rs on 4 GPUs without
// communication SMs: half of the time that the link is busy is added).
constexpr double kEpilogueSlowdown = 1.5;

// A block that pushes beside running tiles takes longer by this share, in proportion to the SMs
// that run them (tuning/h200x8.json, gathers by 4 blocks: 142 GB/s under a GEMM, 177 without).
constexpr double kPushBesideGemm = 0.25;

// A communication block's release comes when most of what it has taken up since has left too, about
// its ring of stages; of short copies, which it completes before it sends more, the stages that its
// store warps have in flight, 48 KB (time stamps inside movers, docs/notes/k-phases.md).
constexpr double kTrailingBytes = 12 * 16384, kShortTrailingBytes = 3 * 16384;
constexpr double kShortCopyBytes = 8 * 16384;

// A reduce by a communication block reaches this share of what memory allows a block; less where
// rows of the tile do not fill the 512 bytes that a warp reads at once (tuning/h200x8.json,
// reductions with 4 communication SMs: 20 to 48 of 92 GB/s).
constexpr double kReduceShare = 0.25;
constexpr int64_t kWarpBytes = 512;

}  // namespace stretto::sim
