// How each pattern emits its tasks, and what the patterns share.
#pragma once

#include <functional>

#include "lower/emitter.h"

namespace stretto {

// What is left of a product when its tiles are emitted: what compute lanes do with what others
// send, and reads that must precede the end of the run. Either may be none.
struct AfterTiles {
  std::function<void()> reduce, deliver;
};

// The rows that others than their own files name.
namespace patterns {
extern const Pattern nccl_gather;      // all-gather chunk by chunk, then tiles
extern const Pattern nccl_reduce;      // tiles, then reduce-scatter or all-reduce of row chunks
extern const Pattern packed_reduce;    // the same for groups of waves, stored tile by tile
extern const Pattern exchange_input;   // own columns to the owners of rows, then their tiles
extern const Pattern exchange_output;  // tiles of own rows, to the owners of their columns
extern const Pattern rows_to_columns;  // own rows, to the owners of their columns; no tiles
extern const Pattern columns_to_rows;  // tiles of own columns, to the owners of their rows
extern const Pattern nccl_rows_to_columns, nccl_columns_to_rows;  // by all-to-alls of all rows
extern const Pattern nccl_exchange_input, nccl_exchange_output;   // by all-to-alls of chunks
}  // namespace patterns

// Tiles of own rows, of what all ranks have sent.
void emit_exchanged(SegmentLowering& state, Emitter& emit,
                    const std::function<void(int32_t wave)>& after_wave = {});

// Left are the sums of what all ranks send.
AfterTiles emit_routed(Lowering& state, RoutedLowering& product);
// Left is what owners do with sums that have come.
AfterTiles emit_look_ups(Lowering& state, LookUpLowering& one);
// Of rows that collectives move by ids (emit_by_ids.cpp).
void emit_by_ids(Lowering& state, RoutedLowering& product);

struct KRange {
  int32_t begin, end;
};
// Range `index` of `ranges` that K is cut into: whole steps, of which the first have the fewest.
KRange k_range(const SegmentLowering& state, int index, int ranges);
// Behind an all-to-all: what each rank has of K, the own range first, then those of the next ranks.
std::vector<KRange> source_ranges(const SegmentLowering& state, int rank);

using ReadA = std::function<void(int rank, const Rect& tile, KRange k)>;
using WriteTile = std::function<void(int rank, int32_t tile, const Rect& rect)>;

// The GEMM of all ranks, wave by wave, with the boundaries of its kernels: read_a names the tile's
// rows of A, write_tile(rank, tile, rect) where its result goes, or that of some rows, all columns,
// which are no tile (-1), of what follows a library's product; after_wave(w), when given, emits
// what wave w makes possible.
//
// With split-k each range of a tile's K is a task of its own; their sums meet in `ranges`, in fp32.
// The last task computes the first range, which is the shortest, and then adds the others to it in
// the order of K. With k-phases the ranges of a tile in_phases() follow one another on one lane, in
// the order in which their rows or columns arrive, and their sum comes behind the last.
void emit_gemm(SegmentLowering& state, Emitter& emit, const ReadA& read_a,
               const WriteTile& write_tile,
               const std::function<void(int32_t wave)>& after_wave = {});

// Reads rows of A from this rank's `a`, stacked as they lie in storage.
ReadA own_rows_of_a(const SegmentLowering& state, Emitter& emit);

// By group (chunk of rows, group of waves): the wave after which all ranks have computed it.
std::vector<int32_t> groups_done(const SegmentLowering& state,
                                 const std::function<int32_t(int32_t tile)>& group_of,
                                 size_t groups);

// The copy-engine queue of `rank` that leads to `peer`.
uint32_t copy_lane(const SegmentLowering& state, int rank, int peer);

}  // namespace stretto
