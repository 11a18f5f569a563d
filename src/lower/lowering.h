// The working state of lowering: the draft, and what one step leaves for the next.
#pragma once

#include <optional>

#include "lower/lanes.h"
#include "lower/look_ups.h"
#include "lower/packing.h"
#include "lower/pattern.h"
#include "lower/pieces.h"
#include "lower/routed.h"
#include "lower/row_layout.h"
#include "lower/tile_grid.h"
#include "lower/tile_order.h"
#include "plan/added_part.h"
#include "schedule/row_parts.h"
#include "stretto/lower.h"

namespace stretto {

// Buffers by what they hold; meaningless where the pattern has no use for one.
struct BufferIds {
  uint16_t a = 0, b = 0, out = 0;
  uint16_t gathered = 0;   // gathers: A of all ranks
  uint16_t part = 0;       // reductions: this rank's partial sums, moved by others than the GEMM
  uint16_t slots = 0;      // slot_reduce: one partial sum of every source, at who reduces it
  uint16_t packed = 0;     // packed_reduce: `part` tile by tile
  uint16_t sums = 0;       // packed_reduce with owners: the reduced tiles of this rank
  uint16_t exchanged = 0;  // exchanges: what peers write, before it is read or is the caller's
  // Of a part of the rows, where its kernel multiplies one block of them: the caller's tensors with
  // the part's stripes, of which `a` and `out` are copies.
  std::optional<uint16_t> striped_a = {}, striped_out = {};
  // Exchanges by NCCL, which moves whole rows: what goes to a rank, or comes from it, below what
  // the one before has.
  uint16_t by_peer = 0;
  uint16_t ranges = 0;  // sums of every range of K (split-k, k-phases), one below the other
};

// The stages over rows behind a product that its collective makes too (normed_sums.h).
struct NormedSums {
  int residual = 0, sum = 0;    // tensors: what is added, and what is then normed
  int weights = 0, normed = 0;  // tensors
  float eps = 0;
};

// The stage `add` behind a product that its sums make too (residual_sums.h).
struct ResidualSum {
  int residual = 0, sum = 0;  // tensors: what is added, and the stage's result
  // Peers write the sum, it is an output, and more stages take its rows: these hand them over from
  // the product's buffer as they read them. So what the caller gets is written by its rank alone.
  bool is_handed_over = false;
};

// What the rows' own tasks restore of a product's packed tiles (restored_rows.h): the tensor that
// is then normed, and what is added to them for that; -1: nothing.
struct RestoredRows {
  int sum = 0, residual = -1;
};

// Of one part of the rows; of all where they are not split.
struct PartLowering {
  const RowPart& rows;
  std::vector<uint16_t> results;  // by tensor: the buffer that holds it for later segments
  uint16_t brought = 0;           // what the last segment that feeds a product brings
};

// Of one product, for one part of the rows: what its steps leave for one another. All of them share
// the plan and its lanes.
struct SegmentLowering {
  SegmentLowering(Draft& draft, const PartLowering& of_rows, const OperatorSegment& part,
                  const Schedule& schedule);

  Plan& plan;
  std::vector<InstrRef>& program;
  const PartLowering& of_rows;
  const Operator& whole;  // that this is a part of
  const OperatorSegment& part;
  const Segment op;
  const Schedule schedule;
  const Machine& machine;
  int sms_of_others = 0;  // that no compute lane of the plan may hold
  std::optional<NormedSums> normed;
  std::optional<ResidualSum> residual;
  std::optional<RestoredRows> restored;

  const Pattern& pattern;
  const RowShards shards;           // owners of rows; one owner of all where no rank owns rows
  std::vector<int32_t> shard_cuts;  // rows of a full shard at which chunks begin and end
  RowLayout layout;
  TileGrid grid;
  Packing packing;
  Pieces pieces;
  std::vector<TileOrder> orders;  // by rank
  BufferIds buffers;
  std::vector<uint16_t> weights;  // buffers of B; buffers.b is the first
  // By stage of `part`: where its tiles are until the next one takes them; none of the last.
  std::vector<uint16_t> kept;
  bool keeps_beside = false;  // products of all weights beside one another, in one buffer
  LaneTable lanes;

  bool gathers() const { return pattern.moves_input; }
  bool exchanges() const { return pattern.exchanges; }
  // Tiles are of the rank's own rows, counted from its first; of these the last ranks may have
  // fewer.
  bool has_own_tiles() const { return exchanges() || op.multiplies_own_rows(); }
  // The rows of a tile that the rank has.
  Rect rect_of(int rank, int32_t tile) const { return on(rank, grid.rect(tile)); }
  Rect on(int rank, Rect rect) const {
    if (!has_own_tiles()) return rect;
    rect.row1 = std::min(rect.row1, static_cast<int32_t>(shards.size(rank)));
    return rect;
  }
  // nccl_exchange_output: a library's product is one matrix before its columns are dealt out.
  bool deals_columns_behind() const { return by_nccl() && schedule.gemm == GemmBy::library; }
  // Exchanges: who has which columns, of A or of the result.
  ColShards col_shards() const { return op.shares_of(gathers() ? op.k : op.n); }
  // Of those the most that a rank has: as far apart as they begin.
  int32_t cols_each() const { return static_cast<int32_t>(col_shards().block()); }
  int32_t cols_of(int rank) const { return static_cast<int32_t>(col_shards().size(rank)); }
  bool ranks_own_rows() const { return op.owns_rows() || op.kind.out == Edge::none; }
  // Stages take the product's tiles from the lane that computes them.
  bool has_followers() const { return part.stages.size() > 1; }
  // These are tasks of their own, behind all tiles of a library's kernel. That of rows that choose
  // their matrices is a kernel of ours.
  bool follows_behind() const {
    return has_followers() && schedule.gemm == GemmBy::library && !op.is_routed();
  }
  bool by_nccl() const { return pattern.by_nccl; }
  // The GEMM ends its kernel for every chunk, so that streams can order chunks by events.
  bool kernel_per_chunk() const {
    return schedule.sync == Sync::event && schedule.granularity == Granularity::chunk &&
           pattern.communicates;
  }
  // slot_reduce: partial sums go through `part` to a mover, not straight into slots.
  bool stages_partials() const { return schedule.mover != Mover::epilogue; }
  // slot_reduce without communication blocks: who owns a tile adds to it, right after computing it,
  // what the others sent, as long as a GPU's kernel can do so in the tile's registers. Copy engines
  // send whole pieces, but the owner still adds tile by tile.
  bool reduces_with_tiles() const {
    const bool by_tiles =
        schedule.mover == Mover::copy_engine
            ? ranks_own_rows()
            : schedule.mover == Mover::epilogue && schedule.granularity == Granularity::tile;
    return pattern.adds_slots && by_tiles && schedule.comm_sms == 0 &&
           schedule.sync != Sync::event && schedule.reduction != Reduction::one_shot &&
           schedule.partials == op.dtype && op.ranks <= kMostSumsInTile;
  }
  // Then also to its rows of a tile that has rows of others too, where epilogues store to slots.
  bool adds_to_parts() const {
    return reduces_with_tiles() && !stages_partials() && ranks_own_rows();
  }
  // Then, tiles of which the rank owns all rows do not go through `part`.
  bool adds_to_slot(int rank, const Rect& tile) const {
    return stages_partials() && reduces_with_tiles() && owns_rows(rank, tile);
  }
  // Lanes of their own for movers and reduces. NCCL's blocks are not among the plan's lanes, but
  // take the same SMs.
  int comm_lanes() const { return pattern.has_movers() ? schedule.comm_sms : 0; }
  int splits() const { return schedule.split_k; }  // tasks that compute a tile
  // Ranges of K in which a lane computes the tiles that are in_phases().
  int phases() const { return pattern.pushes_input() && splits() == 1 ? schedule.k_phases : 1; }
  // Whether the rank computes the tile in those: it, or its partner, has rows of others. Behind an
  // all-to-all every tile has columns of others.
  bool in_phases(int rank, int32_t tile) const {
    if (exchanges()) return phases() > 1;
    return phases() > 1 &&
           !(owns_rows(rank, grid.rect(tile)) && owns_rows(rank, grid.rect(partner(rank, tile))));
  }
  // The tile that the other lane of the cluster computes meanwhile; without clusters itself.
  int32_t partner(int rank, int32_t tile) const {
    if (schedule.cluster == 1) return tile;
    const TileOrder& order = orders[static_cast<size_t>(rank)];
    return order.tiles[static_cast<size_t>(order.position[static_cast<size_t>(tile)] ^ 1)];
  }
  // Gathers write own rows beside those of others, and tiles take them from there.
  bool gathers_own_rows() const {
    return pattern.pushes_rows() && (schedule.own == OwnRows::gathered || op.only_moves());
  }
  // Whether no mover has to write these rows for the rank.
  bool owns_rows(int rank, const Rect& rows) const {
    if (gathers_own_rows()) return false;
    return shards.begin(rank) <= rows.row0 && rows.row1 <= shards.end(rank);
  }
  int32_t num_tasks() const { return grid.count() * splits(); }
  // Columns of the result that a tile has; each weight has as many.
  int tile_cols() const { return schedule.tile_n / std::max(1, op.weights); }
  int compute_lanes() const;  // per rank
  // SMs that lanes of others take, and kernels that streams wait for.
  int sms_for_others() const;
  int tiles_at_once() const { return std::max(1, compute_lanes() / splits()); }
};

// The working state of lowering an operator: of each of its products, and what they share.
struct Lowering : Draft {
  Lowering(const Operator& op, const OperatorSchedule& schedule, const Machine& machine);
  Lowering(const Lowering&) = delete;  // products refer to it

  const RowParts rows;
  std::vector<PartLowering> parts;
  std::vector<SegmentLowering> products;  // by segment, then by part
  std::vector<RoutedLowering> routed;     // products whose rows choose matrices, likewise
  std::vector<RoutedBlocks> routed_blocks;
  std::vector<LookUpLowering> look_ups;  // pooled, likewise
  std::vector<uint32_t> schedule_of;     // by product without parts: its schedule's number
  LaneTable lanes;                       // all that any product uses
  std::vector<int32_t> boundaries;       // by rank: how many it has had
  int32_t collectives = 0;               // numbers that collectives have had
  // By buffer that all parts have rows of: how many for each of the operator's; else 0.
  std::vector<int32_t> rows_each;
  bool cuts_columns = false;  // the last rank has fewer columns of some tensors

  bool is_split() const { return parts.size() > 1; }
  int32_t rows_of_all_parts(uint16_t buffer) const {
    return buffer < rows_each.size() ? rows_each[buffer] : 0;
  }
  void set_rows_of_all_parts(uint16_t buffer, int32_t each) {
    rows_each.resize(plan.buffers.size(), 0);
    rows_each[buffer] = each;
  }
};

// Ends the kernels that run on the rank's compute lanes. With events, what is released at the end
// of one is acquired at the beginning of another, on other ranks too: the boundaries between are
// two.
void end_kernels(Lowering& state, class Emitter& emit);

// Steps run on a draft that lower() made.
inline Lowering& lowering(Draft& draft) { return static_cast<Lowering&>(draft); }

// The steps; see lower.cpp. Those of products run once for each of them.
void check_legal(Draft& draft);
void lay_out_rows(SegmentLowering& state);
void cut_tiles(SegmentLowering& state);
void pack_tiles(SegmentLowering& state);
void cut_pieces(SegmentLowering& state);
void order_tiles(SegmentLowering& state);
void declare_buffers(Draft& draft);
void make_lanes(Draft& draft);
void emit_tasks(Draft& draft);
void say_libraries(Draft& draft);
void drop_idle_lanes(Draft& draft);

}  // namespace stretto
