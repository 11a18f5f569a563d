// What our kernels were seen to do on H200s, beyond what a machine file says of the machine.
// Ratios, so that they hold for any machine. docs/simulation.md has the errors that remain.
#pragma once

#include <cstdint>

namespace stretto::sim {

// What cuBLAS takes for a product (library_product.h): its start, with the first loads and the last
// stores; a stage of 64 columns of K by tiles too small to fill the time; each wave of tiles beyond
// the first; and adding up ranges of K, beside their sums' bytes (one H200,
// bench/results/products_h200_x1.json: fitted to the tiles that cuBLAS says it took for 190
// products of no model's sizes; docs/notes/cublas-alone.md).
constexpr double kLibraryStartUs = 2.9, kLibraryStageUs = 0.09, kLibraryWaveUs = 2.1;
constexpr double kLibrarySumsUs = 3.3;
// Inputs that the run before has read, too: the L2 cache has all of them up to the share `kept` of
// its size, and none of those as large as it is. Rates are shares of hbm_gb_per_s, which is of
// reads and writes.
struct Reread {
  double of_memory, of_cache, kept;
};
// cuBLAS: of the same products what is faster warm than cold, 2.9 us of 30 MB, 3.9 of 42, 0.9 of 48
// and nothing of 50.
constexpr Reread kLibraryReads{1.09, 1.76, 0.85};
// MMAs wait for this share of the bytes that pass shared memory; the others pass beside them. So
// it is with cuBLAS, and with our tall tiles of few columns (256 x 64: 0.39 us of 64 of K where
// MMAs take 0.26).
constexpr double kSharedMoves = 0.76;
// cuBLAS's products of fp32: a start, and this share of the rate.
constexpr double kFp32StartUs = 2, kFp32Rate = 0.88;
// The kernel of experts likewise (2 x H200: moe-tp-up of 8192 and 16384 tokens with tokens by copy
// engines took 462, 857 and 810 us, and 521, 973 and 864 were simulated at a share of 0.88).
constexpr double kExpertsStartUs = 2, kExpertsRate = 0.96;

// In a graph a stream's fork and join take so long together, and a kernel of one block that awaits
// others' signals so long ahead of the next kernel (between_kernels_us of the same file: 0.3 to
// 0.5, and 0.6).
constexpr double kForkUs = 0.4, kAwaitUs = 0.6;

// A tile's inputs come through the L2 cache. Tiles of 128 x 256, on all SMs, take this share of
// what it gives; smaller ones need more bytes for each multiplication and wait for them, in
// proportion to the SMs that are at it (tuning/h200x8.json: 128 x 128 takes 1.07 times as long,
// 128 x 64 1.6; ag-gemm with 40 tiles of 128 x 128: no longer; one H200 alone, 24 shapes in 17
// tiles: bench/results/tiles_alone_h200_x1.json).
constexpr double kFeedOfFullTile = 0.8;
constexpr double kInputsOfFullTile = (128.0 + 256.0) / (128.0 * 256.0);

// A tile that begins later than the first of its wave reads B anew where the L2 cache, whose halves
// keep copies of their own, no longer holds what that one has read; it then takes so much longer
// (docs/notes/in-step.md: by 0.1 to 0.4; this is what fits gathers in tuning/h200x8.json).
constexpr double kReadAnew = 0.12;

// NCCL's start among fewer ranks than eight, as shares of nccl_launch_us: up to kNcclFewBytes out
// of a GPU, and from twice as many on, where it takes another protocol (all-reduces of
// bench/results/language_h200_x2.json and _x4.json: 6 and 9 us, then 17 to 20 beyond the bytes).
struct NcclStart {
  int ranks;
  double few_bytes, many_bytes;
};
constexpr NcclStart kNcclStart[] = {{2, 0.23, 0.68}, {4, 0.34, 0.68}, {8, 1, 1}};
constexpr double kNcclFewBytes = 1 << 20;

// Between two ranks its gathers and reduce-scatters reach this share of the rate (NCCL alone of
// operators_h200_x2.json: 224 GB/s from 12 MB on, where all-reduces reach 290; 4 and 8 ranks: 0.93
// and 1 of what the machine file says).
constexpr double kNcclOfPair = 0.73;
// What collectives that go by ids reach of the link: 268 to 302 GB/s of 390 between two ranks
// (bench/results/experts_by_ids_steps_h200_x2.json).
inline constexpr double kOfLinkByIds = 0.78;
// And of memory sums of what experts made (8192 tokens of 4096 columns, 8 choices: 671 MB in 178
// us, bench/results/experts_by_ids_steps_h200_x2.json).
inline constexpr double kOfMemoryByIds = 0.9;

// Tiles read their distinct inputs from memory at this share of what a copy of memory reaches, all
// together (M = 16 to 256 in tiles of 64 x 64 to 128 x 128: 2.6 to 3.6 TB/s from 112 tiles on).
constexpr double kStreamOfAll = 0.82;
// And those of entries of a partition at this share of that: eight first halves of layers of 64 and
// 1024 tokens took 1.06 to 1.20 times what was simulated without it
// (bench/results/experts_halves_h200_x2.json; docs/notes/moe.md, "Up halves by ids").
constexpr double kStreamOfEntries = 0.815;

// A tile whose multiplications and inputs take as long as one another reaches neither limit all the
// time, and takes so much longer; none where one takes half of the other (tuning/h200x8.json, fewer
// than 512 rows in one wave: 0.86 to 0.91 of what was simulated without this where both are alike,
// 0.93 to 0.99 where one is half).
constexpr double kBothLimits = 0.15;

// A task of an entry without rows reads that it is empty, in the L2 cache, and is done. Not
// measured.
constexpr double kEmptyEntryUs = 0.3;
// The kernel of experts multiplies rows in units of so many.
constexpr double kUnitOfExperts = 16;
// It reads weights at this share of hbm_gb_per_s, which is of reads and writes (few rows, one H200:
// 4.1 to 4.4 TB/s, bench/results/grouped_shuffled_h200_x1.json).
constexpr double kExpertsRead = 1.15;
// And stores at this one, where that is what it does (short K, one H200: 4.2 TB/s,
// bench/results/short_k_elected_h200_x1.json).
constexpr double kExpertsStored = 1.12;

// The kernel of few rows: its first weights come after its start, the others at this share of
// hbm_gb_per_s, in tiles of so many columns, two of them on an SM at once; it multiplies at this
// share of gemm_tflops, takes this much longer where blocks of a cluster add up ranges of K, and
// then sends, or stores, what it has multiplied, in this time where no link makes it longer (one
// H200, 20 shapes of 1 to 128 rows: 4.15 TB/s, 430 TFLOP/s).
constexpr double kFewRowsStartUs = 1.6, kFewRowsRead = 1.107, kFewRowsRate = 0.52;
// With what the L2 cache keeps of weights from the run before, less the more there are.
constexpr Reread kFewRowsReads{kFewRowsRead, 2.4, 0.2};
constexpr double kFewRowsSplitUs = 0.7, kFewRowsSendUs = 0.9;
constexpr int kFewRowsColumns = 64, kFewRowsBlocks = 2;
// An SM takes so many GB/s of weights and tokens. Behind another kernel of a graph so much of a
// start is over by then (2 x H200, 73 products of 1 to 128 rows of tuning/h200x8.json and
// bench/results/unseen_sweep_h200_x2.json: off by 6 % in the mean, 12 % without these, and without
// what the L2 cache keeps of weights).
constexpr double kFewRowsOfSm = 120, kFewRowsChainedUs = 0.4;
// A stage of 64 of K takes a block so long, and so much longer for each row of tokens, however few
// its columns are: 5120 columns, in 128 blocks of 40 that take K whole, are held back by that and
// not by memory (one H200, bench/results/few_rows_alone_h200_x1.json: 0.155 to 0.18 where the L2
// cache has the weights; with it, of 99 products of two H200s, 4.6 instead of 5.2 % off).
constexpr double kFewRowsStageUs = 0.15, kFewRowsStageOfRowUs = 0.0003;
// More tiles than SMs hold at once: where some have ended, the next wait for their first weights (6
// products of 36,864 to 67,584 columns of bench/results/unseen_sweep_h200_x2.json: 3 to 7 us).
constexpr double kFewRowsRoundUs = 4;
// More rows than stream weights take the cycles that its choice of tiles reckons with
// (op/few_rows_tiles.h), at so many times the clock at which tensor cores that never wait would
// reach gemm_tflops (one H200, 18 shapes of 144 to 512 rows: 1850 cycles a microsecond, off by 4 %
// in the median and 23 % at worst).
constexpr double kFewRowsClock = 1.22, kFlopOfCycle = 4096;
// Stores to other GPUs hold up the tile that is multiplied beside them so many times
// (bench/results/few_rows_beside_h200_x2.json: 1.1 to 1.5 in 13 products).
constexpr double kFewRowsBeside = 1.3;
// Where a gather is ahead, so much of its start is over by then: its first weights are there. Once
// the last vectors that it sends have come, the kernel that receives takes about as long as the
// other: its blocks are there already.
constexpr double kFewRowsEarlyUs = 1.5, kReceiveUs = 1;
// A product of cuBLAS behind another product of the same plan takes so much longer than by itself
// (bench/results/few_rows_graphs, few_rows_gates and mlp_ways_h200_x2.json, MLPs and layers of 16
// to 512 rows: 1.5 to 11 us a product, 4 in the median).
constexpr double kLibraryBehindUs = 4;
// Around cuBLAS, too, starts of one are over before the other has ended: of cuBLAS behind a gather
// whose data is its own signal, and of such sums behind cuBLAS (2 x H200, 90 products of 1 to 512
// rows, what low-latency takes beside cuBLAS alone: bench/results/unseen_h200_x2.json,
// few_rows_sent_h200_x2.json).
constexpr double kLibraryEarlyUs = 1.4, kSumsEarlyUs = 0.8;

// However narrow a tile is, a stage of its K takes this long from one to the next (2 and 4 x H200,
// M = 16, 64 to 192 columns, K = 4096 and 8192: 0.208 to 0.225 us).
constexpr double kStageUs = 0.21;

// GEMMs are held back by power: the share of gemm_tflops that runs of this many microseconds keep,
// one after the other (bench/results/gemm_h200_x1.json, our kernels alone in graphs of ten: 0.98 of
// what the machine file says at 44 us, 0.9 at 90 to 115, 0.83 to 0.88 from 120 to 1800). Beside
// collectives, in which the SMs rest, they keep more (GEMM alone of operators_h200_x4.json).
struct PowerPoint {
  double us, share;
};
constexpr PowerPoint kPower[] = {{60, 1.0}, {150, 0.87}, {1900, 0.86}};
constexpr PowerPoint kRestedPower[] = {{350, 1.0}, {700, 0.93}, {1300, 0.90}, {1900, 0.86}};
// cuBLAS keeps, alone and between collectives (GEMM alone of bench/results/*.json), and with
// communication beside it all the time (products in chunks of tuning/h200x8.json):
constexpr PowerPoint kLibraryPower[] = {{60, 1.0}, {150, 0.87}, {800, 0.85}};
constexpr PowerPoint kBesidePower[] = {{60, 1.0}, {150, 0.86}, {800, 0.83}};
// That is where collectives take this share of both; of less, they keep as much less more
// (bench/results/layers_h200_x2.json: operators whose collectives take 0.1 of the time).
constexpr double kEnoughRest = 0.25;

// Memory takes power too: tiles of a gather that read more than this share of hbm_gb_per_s together
// take longer, by so much for each share beyond (tuning/h200x8.json, 345 gathers of 1000 rows and
// more: 0.95 of what was simulated without it at 0.6 TB/s, 1.00 at 1.4, 1.06 at 1.8, 1.10 at 2.2,
// and 1.2 from 4096 rows on; reductions: no more than 1.01; docs/notes/order-reads.md).
constexpr double kReadsForFree = 0.32, kPowerOfReads = 0.4;
constexpr double kMostReads = 0.4;  // beyond: nothing was measured that reads more

// While epilogues keep a port full both ways, tiles take this many times as long: consumers hold
// their sums until the link takes them (tuning/h200x8.json, gemm-rs on 4 GPUs without
// communication SMs: half of the time that the link is busy is added).
constexpr double kEpilogueSlowdown = 1.5;

// A tile whose rows go to several ranks is stored box by box: this and so much a rank longer than
// in one piece (2 and 4 x H200, reductions of 16 to 256 rows: 1 to 5 us, beside what the kernel of
// movers behind it takes).
constexpr double kStoreOfPartsUs = 1, kStoreOfPartUs = 0.75;

// A block that pushes beside running tiles takes longer than alone by this share, in proportion to
// the SMs that run them (tuning/h200x8.json, gathers by 4 blocks: 142 GB/s under a GEMM, 46 by one
// block without). Enough of them fill the link nevertheless (gathers by 12 and 16 blocks of whose
// time links have half: off by 0.06 and 0.05 where it is 0.12 and 0.10 if the link is slower, too),
// but not beside cuBLAS.
constexpr double kPushBesideGemm = 0.3;

// Sums of a range of K come through the fences of two groups of warps beside loads on all SMs, so
// many times as long as a mover's release (time stamps, docs/notes/split-k.md: 5 to 9 us).
constexpr double kLeavingReleases = 2;

// A communication block's release comes when most of what it has taken up since has left too, about
// its ring of stages; of short copies, which it completes before it sends more, the stages that its
// store warps have in flight, 48 KB (time stamps inside movers, docs/notes/k-phases.md).
constexpr double kTrailingBytes = 12 * 16384, kShortTrailingBytes = 3 * 16384;
constexpr double kShortCopyBytes = 8 * 16384;
// Before it sends more than a short copy it awaits that this one has landed, so much later than a
// block by itself would have sent it (gathers with rows of 2 to 5 KB on 2 GPUs, in phases of K:
// simulated without this at 0.55 to 0.9 of what tuning/h200x8.json has, docs/notes/k-phases.md).
constexpr double kLandsUs = 1;

// A reduce by a communication block reaches this share of what a copy by one does; less where
// rows of the tile do not fill the 512 bytes that a warp reads at once (tuning/h200x8.json,
// reductions with 4 communication SMs: 20 to 48 of 92 GB/s).
constexpr double kReduceShare = 0.28;
constexpr int64_t kWarpBytes = 512;

}  // namespace stretto::sim
