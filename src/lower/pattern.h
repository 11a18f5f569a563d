// Pattern: how the tasks of a dense product hang together, from the layout of its rows to what its
// tiles leave behind: one row, defined beside its tasks in emit_*.cpp. Steps of lowering run what
// the row has for them and ask it what they need to know; no step tells one pattern from another.
// Which pattern a product has says the row of its edge (edge_row.h).
#pragma once

#include "stretto/schedule.h"

namespace stretto {

struct AfterTiles;
class Emitter;
class PatternBuffers;
struct SegmentLowering;

struct Pattern {
  // lay_out_rows: how the rows of the communicated matrix lie in storage.
  void (*lay_out_rows)(SegmentLowering& product);
  // cut_pieces: what is communicated at once. Null: nothing is, or tiles say it themselves.
  void (*cut_pieces)(SegmentLowering& product) = nullptr;
  // declare_buffers: those that are neither the caller's nor the product's result. Null: none.
  void (*declare_buffers)(SegmentLowering& product, const PatternBuffers& buffers) = nullptr;
  // emit_tasks: what moves the input, and may stand before what precedes the tiles. Null: nothing.
  void (*emit_input)(SegmentLowering& product, Emitter& emit) = nullptr;
  // Of a segment that only moves, what is left to do with what has come. Null: nothing.
  void (*settle_input)(SegmentLowering& product, Emitter& emit) = nullptr;
  // And the tiles, and what moves their results. `rows_sum`: partial sums are sent to their slots,
  // and stages over rows add them.
  // Null: such a segment only moves.
  AfterTiles (*emit_tiles)(SegmentLowering& product, Emitter& emit, bool rows_sum) = nullptr;

  bool communicates = true;
  bool by_nccl = false;
  bool moves_input = false;         // before the tiles; else their results are moved
  bool exchanges = false;           // every rank has a part for every other, of columns
  bool adds_slots = false;          // partial sums meet in slots of who adds them
  bool packs = false;               // results are stored tile by tile, group after group
  bool peers_write_result = false;  // whatever schedules say

  // By other means than NCCL's: communication lanes may take part.
  bool has_movers() const { return communicates && !by_nccl; }
  bool pushes_input() const { return moves_input && !by_nccl; }
  // Movers send rows to all ranks.
  bool pushes_rows() const { return pushes_input() && !exchanges; }
  // Tiles may be stored where peers have them.
  bool stores_to_peers() const { return has_movers() && !moves_input; }
  // Columns of the result have owners.
  bool deals_columns() const { return exchanges && !moves_input; }
};

// That of the row of its edge (edge_row.cpp).
const Pattern& pattern_of(const Segment& op, const Schedule& schedule);

// Layouts of rows (lay_out_rows.cpp): as they come, all of them or the rank's own; shard by shard;
// the rank's own, chunk by chunk; chunks of one shard after the other, whose tiles are of one
// owner; chunks of all shards in turn, as collectives take them; shards whose groups of tiles are
// packed.
void lay_out_plain(SegmentLowering& product);
void lay_out_shards(SegmentLowering& product);
void lay_out_own(SegmentLowering& product);
void lay_out_chunked_shards(SegmentLowering& product);
void lay_out_chunks(SegmentLowering& product);
void lay_out_packed(SegmentLowering& product);

// Pieces (cut_pieces.cpp): blocks of the rows of every shard; of the result, or shares of its tiles
// where nobody owns rows; of what a rank makes of every shard's rows; of own rows, in the columns
// of every rank; what an owner has in a chunk.
void cut_input_of_shards(SegmentLowering& product);
void cut_result_of_shards(SegmentLowering& product);
void cut_columns_of_shards(SegmentLowering& product);
void cut_own_rows(SegmentLowering& product);
void cut_input_of_chunks(SegmentLowering& product);
void cut_result_of_chunks(SegmentLowering& product);

}  // namespace stretto
