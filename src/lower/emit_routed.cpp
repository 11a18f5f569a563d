// Products of routed rows: tokens go to who multiplies them, tables say which rows are whose, tiles
// are of entries, and sums go back to who has the token.
//
// With a partition for each source (granularity=chunk) a rank's tiles take the tokens of one rank
// after another, its own first and then as they arrive; sums leave for the next ranks first.
#include <algorithm>

#include "lower/emitter.h"
#include "lower/opcode_of.h"
#include "stretto/error.h"

namespace stretto {
namespace {

class Routed {
 public:
  Routed(Lowering& state, RoutedLowering& product)
      : state_(state),
        op_(state.op),
        product_(product),
        blocks_(state.routed_blocks[product.blocks]),
        ranks_(state.op.ranks),
        events_(product.schedule.sync == Sync::event),
        emit_(state, product.lanes, state.parts[0]),
        comm_(ranks_, std::max(1, product.lanes.comm)),
        compute_(ranks_, product.lanes.compute) {}

  void emit() {
    if (!blocks_.has_tables) gather(product_.ids);
    gather(product_.weights);
    gather_x();
    if (!blocks_.has_tables) make_tables();
    blocks_.has_tables = true;
    product_.has_sums() ? emit_with_sums() : emit_tiles();
  }

 private:
  // ---- tokens

  // Every rank's rows to all ranks.
  void gather(const GatheredRows& rows) {
    if (rows.tensor < 0 || !rows.is_gathered) return;
    if (product_.by_nccl()) return all_gather(rows);
    for (int rank = 0; rank < ranks_; ++rank) {
      const Region own = own_rows(rows, rank);
      if (own.empty()) continue;
      emit_.read(own);
      for (int i = 0; i < ranks_; ++i) {
        emit_.write(rows_of_source(rows, rank, (rank + i) % ranks_));
      }
      emit_.task(product_.lanes.comm_lane(rank, comm_.next(rank)), Opcode::copy);
    }
  }

  // In as many parts as there are lanes, to the previous rank first: it takes them next.
  void gather_x() {
    const GatheredRows& rows = product_.x;
    if (!rows.is_gathered) return;
    if (product_.by_nccl()) return all_gather(rows);
    for (int rank = 0; rank < ranks_; ++rank) {
      const Region own = own_rows(rows, rank);
      const int parts = std::min(product_.lanes.comm, own.rows());
      for (int i = 1; i <= ranks_; ++i) {
        const int to = (rank - i + ranks_) % ranks_;
        // Own rows are taken from where they lie, unless a partition is of all tokens.
        if (to == rank && blocks_.by_source) continue;
        for (int part = 0; part < parts; ++part) send_part(rank, to, part, parts);
      }
    }
  }

  void send_part(int rank, int to, int part, int parts) {
    const GatheredRows& rows = product_.x;
    const auto cut = [&](Region region) {
      const int32_t first = region.row0, count = region.rows();
      region.row0 = first + static_cast<int32_t>(int64_t{count} * part / parts);
      region.row1 = first + static_cast<int32_t>(int64_t{count} * (part + 1) / parts);
      return region;
    };
    emit_.read(cut(own_rows(rows, rank)));
    const bool chosen_only = product_.has_shares_of_experts();
    if (chosen_only) emit_.read(cut(own_rows(product_.ids, rank)));
    emit_.write(cut(rows_of_source(rows, rank, to)));
    const uint32_t lane = product_.lanes.comm_lane(rank, comm_.next(rank));
    if (chosen_only) {
      emit_.counted_task(lane, Opcode::dispatch, {blocks_.all_experts});
    } else {
      emit_.task(lane, Opcode::copy);
    }
  }

  void all_gather(const GatheredRows& rows) {
    for (int rank = 0; rank < ranks_; ++rank) {
      emit_.read(own_rows(rows, rank));
      for (int source = 0; source < ranks_; ++source) {
        emit_.write(rows_of_source(rows, source, rank));
      }
      emit_.collective(rank, CollectiveKind::all_gather, collectives_);
    }
    ++collectives_;
  }

  int32_t cols_of(const GatheredRows& rows) const { return state_.plan.buffers[rows.own].cols; }
  Region own_rows(const GatheredRows& rows, int rank) const {
    const RowShards shards{op_.tensor(rows.tensor).rows, ranks_};
    const bool has_all = state_.plan.buffers[rows.own].sharded_rows == 0;
    const auto first = static_cast<int32_t>(has_all ? shards.begin(rank) : 0);
    return region_of({first, first + static_cast<int32_t>(shards.size(rank)), 0, cols_of(rows)},
                     rows.own, rank);
  }
  Region rows_of_source(const GatheredRows& rows, int source, int at) const {
    const RowShards shards{op_.tensor(rows.tensor).rows, ranks_};
    return region_of({static_cast<int32_t>(shards.begin(source)),
                      static_cast<int32_t>(shards.end(source)), 0, cols_of(rows)},
                     rows.all, at);
  }
  // Rows [first, last) of a block, counted from its first, where the rank has them.
  Region rows_of_block(const GatheredRows& rows, int block, int rank, int32_t first,
                       int32_t last) const {
    const bool has_own = rows.is_gathered && blocks_.by_source && block == rank;
    const int32_t base = has_own ? 0 : blocks_.first_token(block);
    return region_of({base + first, base + last, 0, cols_of(rows)}, has_own ? rows.own : rows.all,
                     rank);
  }
  int32_t tokens_of(int block) const {
    return blocks_.last_token(block) - blocks_.first_token(block);
  }

  // ---- tables

  // A rank's blocks in the order in which it takes them.
  std::vector<int> order_of_blocks(int rank) const {
    std::vector<int> order;
    if (!blocks_.by_source) return {0};
    const bool own_last = product_.has_sums();
    for (int i = 0; i < ranks_; ++i) {
      const int block = own_last ? (rank + 1 + i) % ranks_ : (rank - i + ranks_) % ranks_;
      if (block < blocks_.count) order.push_back(block);
    }
    return order;
  }

  void make_tables() {
    if (events_) boundaries();
    for (int rank = 0; rank < ranks_; ++rank) {
      for (const int block : order_of_blocks(rank)) {
        const int32_t first = blocks_.first_entry(block), tokens = tokens_of(block);
        emit_.read(rows_of_block(product_.ids, block, rank, 0, tokens));
        emit_.write(region_of(blocks_.rows_of_block(block, 0, 1), blocks_.choices, rank));
        emit_.write(region_of({first, first + blocks_.entries, 0, 1}, blocks_.experts_of, rank));
        emit_.write(choices_of(block, 0, tokens, rank));
        const int32_t counts = block * (blocks_.experts + 1);
        emit_.write(region_of({counts, counts + blocks_.experts_of_rank(rank) + 1, 0, 1},
                              blocks_.counts, rank));
        emit_.counted_task(product_.lanes.compute_lane(rank, compute_.next(rank)), Opcode::route,
                           {blocks_.all_experts});
      }
    }
    if (events_) boundaries();
  }
  void boundaries() {
    for (int rank = 0; rank < ranks_; ++rank) emit_.boundary(rank);
  }
  // Table rows of the choices of tokens [first, last) of a block.
  Region choices_of(int block, int32_t first, int32_t last, int rank) const {
    const int32_t base = blocks_.first_token(block);
    return region_of({(base + first) * blocks_.top_k, (base + last) * blocks_.top_k, 0, 1},
                     blocks_.rows, rank);
  }

  // ---- tiles

  bool takes_rows_of_partition() const {
    return state_.plan.buffers[product_.x.own].partition >= 0;
  }

  // Of entries [entry, last).
  void emit_tile(int rank, int block, int32_t entry, int32_t last, int tile) {
    const uint32_t lane = product_.lanes.compute_lane(rank, compute_.next(rank));
    const Rect cols = product_.cols_of(tile);
    const Rect rows = blocks_.rows_of_entries(entry, last, cols.col0, cols.col1);
    const int32_t number = entry * product_.col_tiles() + tile;
    const auto k = static_cast<int32_t>(product_.op.local_k());
    const auto each = static_cast<int32_t>(product_.op.local_n());
    const std::vector<int>& stages = product_.part.stages;
    for (size_t weight = 0; weight < product_.stacks.size(); ++weight) {
      const bool gathers = !takes_rows_of_partition();
      if (gathers) {
        emit_.read(region_of({rows.row0, rows.row1, 0, 1}, blocks_.choices, rank));
      } else {
        emit_.read(region_of({rows.row0, rows.row1, 0, k}, product_.x.own, rank));
      }
      emit_.read(region_of({entry, last, 0, 1}, blocks_.experts_of, rank));
      const bool by_choice = product_.takes_choices(op_);
      if (gathers) emit_.read(x_of(block, rank, by_choice ? blocks_.top_k : 1));
      const int32_t last_matrix = (blocks_.experts_of_rank(rank) - 1) * each;
      emit_.read(
          region_of({cols.col0, last_matrix + cols.col1, 0, k}, product_.stacks[weight], rank));
      emit_.write(region_of(rows, product_.kept[weight], rank));
      if (gathers) {
        emit_.counted_task(lane, Opcode::gather_gemm, {each, by_choice ? 1 : blocks_.top_k},
                           number);
      } else {
        emit_.counted_task(lane, Opcode::grouped_gemm, {each}, number);
      }
    }
    for (size_t i = product_.stacks.size(); i < stages.size(); ++i) {
      const Stage& stage = op_.stage(stages[i]);
      if (stage.kind == StageKind::weigh) break;
      for (const int in : stage.in) emit_.read(operand(in, rows, rank));
      emit_.write(region_of(rows, product_.kept[i], rank));
      emit_.stage(lane, stage, number);
    }
  }
  // A tile that a stage before has left, or the caller's row.
  Region operand(int tensor, const Rect& rows, int rank) const {
    const std::vector<int>& stages = product_.part.stages;
    for (size_t i = 0; i < stages.size(); ++i) {
      if (op_.stage(stages[i]).out == tensor) return region_of(rows, product_.kept[i], rank);
    }
    const uint16_t row = *state_.plan.find_buffer(op_.tensor(tensor).name);
    const auto own = static_cast<int32_t>(product_.op.local_n());
    const int32_t first = state_.plan.buffers[row].cols != own ? rank * own : 0;
    return region_of({0, 1, first + rows.col0, first + rows.col1}, row, rank);
  }
  Region x_of(int block, int rank, int32_t each) const {
    if (each == 1) return rows_of_block(product_.x, block, rank, 0, tokens_of(block));
    const auto k = static_cast<int32_t>(product_.op.local_k());
    return region_of({blocks_.first_token(block) * each, blocks_.last_token(block) * each, 0, k},
                     product_.x.own, rank);
  }

  // Some entries go through all columns before the next ones' turn: so what runs at the same time
  // shares rows and matrices in L2.
  void emit_bands(int rank, int block) {
    constexpr int32_t kRows = 2048;
    std::vector<std::pair<int32_t, int32_t>> band;
    const auto emit_band = [&] {
      for (int tile = 0; tile < product_.col_tiles(); ++tile) {
        for (const auto& [first, last] : band) emit_tile(rank, block, first, last, tile);
      }
      band.clear();
    };
    blocks_.for_each_task(block, [&](int32_t first, int32_t last) {
      band.emplace_back(first, last);
      if (static_cast<int32_t>(band.size()) * blocks_.entry_rows >= kRows) emit_band();
    });
    emit_band();
  }

  void emit_all_bands() {
    const int turns = static_cast<int>(order_of_blocks(0).size());
    for (int turn = 0; turn < turns; ++turn) {
      for (int rank = 0; rank < ranks_; ++rank) {
        emit_bands(rank, order_of_blocks(rank)[static_cast<size_t>(turn)]);
      }
    }
  }
  void emit_tiles() {
    emit_all_bands();
    if (events_) boundaries();
  }

  // ---- sums

  // Where sums leave meanwhile, columns by columns, so that those of the first tiles do so while
  // others are multiplied.
  void emit_with_sums() {
    const int turns = static_cast<int>(order_of_blocks(0).size()), tiles = product_.col_tiles();
    if (!sums_at_once()) return emit_before_sums();
    for (int turn = 0; turn < turns; ++turn) {
      for (int tile = 0; tile < tiles; ++tile) {
        for (int rank = 0; rank < ranks_; ++rank) {
          const int block = order_of_blocks(rank)[static_cast<size_t>(turn)];
          blocks_.for_each_task(block, [&](int32_t first, int32_t last) {
            emit_tile(rank, block, first, last, tile);
          });
        }
        for (int rank = 0; rank < ranks_; ++rank) sum_up(rank, turn, tile);
      }
    }
    finish();
  }
  void emit_before_sums() {
    const int turns = static_cast<int>(order_of_blocks(0).size()), tiles = product_.col_tiles();
    if (events_) boundaries();
    emit_all_bands();
    if (events_) boundaries();
    for (int turn = 0; turn < turns; ++turn) {
      for (int tile = 0; tile < tiles; ++tile) {
        for (int rank = 0; rank < ranks_; ++rank) sum_up(rank, turn, tile);
      }
    }
    if (events_) boundaries();
    if (product_.by_nccl()) reduce_by_nccl();
  }
  bool sums_at_once() const { return product_.communicates() && !product_.by_nccl(); }

  void sum_up(int rank, int turn, int tile) {
    const int block = order_of_blocks(rank)[static_cast<size_t>(turn)];
    if (blocks_.by_source) return sum_rows(rank, block, block, 0, tokens_of(block), tile);
    const RowShards shards{blocks_.tokens, ranks_};
    for (int i = 1; i <= ranks_; ++i) {
      const int owner = (rank + i) % ranks_;
      sum_rows(rank, 0, owner, static_cast<int32_t>(shards.begin(owner)),
               static_cast<int32_t>(shards.end(owner)), tile);
    }
  }

  // Tokens [first, last) of a block, all of one owner, as seen from the block's first.
  void sum_rows(int rank, int block, int owner, int32_t first, int32_t last, int tile) {
    const Rect cols = product_.cols_of(tile);
    const int parts = parts_of(last - first);
    for (int part = 0; part < parts; ++part) {
      const auto at = [&](int i) {
        return first + static_cast<int32_t>(int64_t{last - first} * i / parts);
      };
      const int32_t from = at(part), to = at(part + 1);
      emit_.read(rows_of_block(product_.weights, block, rank, from, to));
      emit_.read(choices_of(block, from, to, rank));
      emit_.read(region_of(blocks_.rows_of_block(block, cols.col0, cols.col1),
                           product_.kept[sum_stage() - 1], rank));
      emit_.write(place_of_sum(rank, block, owner, {from, to, cols.col0, cols.col1}));
      const uint32_t lane = sums_at_once() ? product_.lanes.comm_lane(rank, comm_.next(rank))
                                           : product_.lanes.compute_lane(rank, compute_.next(rank));
      if (sums_at_once() && product_.has_shares_of_experts()) {
        emit_.counted_task(lane, Opcode::combine, {blocks_.all_experts});
      } else {
        emit_.task(lane, Opcode::weigh);
      }
    }
  }
  size_t sum_stage() const { return product_.part.stages.size() - 1; }
  int parts_of(int32_t rows) const {
    constexpr int32_t kRows = 16;  // at least, of a part
    const int lanes = sums_at_once() ? product_.lanes.comm : product_.lanes.compute;
    // Rows of several owners are dealt to the lanes at once.
    const int owners = blocks_.by_source ? 1 : ranks_;
    return std::clamp(rows / kRows, std::min(rows, 1), (lanes + owners - 1) / owners);
  }
  // `rows` are counted from the block's first token.
  Region place_of_sum(int rank, int block, int owner, const Rect& rows) const {
    const int32_t token = blocks_.first_token(block);
    if (!product_.communicates()) return region_of(rows.moved(token), product_.out, rank);
    if (product_.by_nccl()) return region_of(rows.moved(token), product_.part_sums, rank);
    const RowShards shards{blocks_.tokens, ranks_};
    const auto down = static_cast<int32_t>(rank * shards.block() + token - shards.begin(owner));
    return region_of(rows.moved(down), product_.slots, owner);
  }

  // Every owner adds what all ranks have sent of a column of tiles: by the lanes that have no more
  // tiles, which are the most.
  void add_slots(int tile) {
    const RowShards shards{blocks_.tokens, ranks_};
    const Rect cols = product_.cols_of(tile);
    for (int rank = 0; rank < ranks_; ++rank) {
      const auto rows = static_cast<int32_t>(shards.size(rank));
      const int of_tile = 2 * product_.lanes.compute / product_.col_tiles() + 1;
      const int parts = std::min(rows, of_tile);
      for (int part = 0; part < parts; ++part) {
        const auto at = [&](int i) { return static_cast<int32_t>(int64_t{rows} * i / parts); };
        const Rect own{at(part), at(part + 1), cols.col0, cols.col1};
        if (product_.has_shares_of_experts()) {
          Region ids = own_rows(product_.ids, rank);
          ids.row1 = ids.row0 + own.row1;
          ids.row0 += own.row0;
          emit_.read(ids);
        }
        for (int source = 0; source < ranks_; ++source) {
          const auto down = static_cast<int32_t>(source * shards.block());
          emit_.read(region_of(own.moved(down), product_.slots, rank));
        }
        write_sum(rank, own);
        const uint32_t lane = product_.lanes.compute_lane(rank, compute_.next(rank));
        if (product_.has_shares_of_experts()) {
          emit_.counted_task(lane, Opcode::merge, {blocks_.all_experts});
        } else {
          emit_.task(lane, Opcode::reduce);
        }
      }
    }
  }
  void write_sum(int rank, const Rect& own) {
    if (product_.op.kind.out != Edge::all_reduce) {
      return emit_.write(region_of(own, product_.out, rank));
    }
    const auto first = static_cast<int32_t>(RowShards{blocks_.tokens, ranks_}.begin(rank));
    for (int i = 0; i < ranks_; ++i) {
      emit_.write(region_of(own.moved(first), product_.out, (rank + i) % ranks_));
    }
  }

  void finish() {
    for (int tile = 0; tile < product_.col_tiles(); ++tile) add_slots(tile);
    const bool is_callers = state_.plan.buffers[product_.out].role == BufferRole::output;
    if (product_.op.kind.out != Edge::all_reduce || !is_callers) return;
    // What peers write must have arrived when the run ends.
    const RowShards shards{blocks_.tokens, ranks_};
    for (int rank = 0; rank < ranks_; ++rank) {
      for (int source = 0; source < ranks_; ++source) {
        if (source == rank || shards.size(source) == 0) continue;
        emit_.read(region_of(
            {static_cast<int32_t>(shards.begin(source)), static_cast<int32_t>(shards.end(source)),
             0, static_cast<int32_t>(product_.op.n)},
            product_.out, rank));
      }
      emit_.task(product_.lanes.compute_lane(rank, 0), Opcode::deliver);
    }
  }

  void reduce_by_nccl() {
    const RowShards shards{blocks_.tokens, ranks_};
    const bool scatters = product_.op.kind.out != Edge::all_reduce;
    const auto n = static_cast<int32_t>(product_.op.n);
    const auto rows_of = [&](int owner) {
      return Rect{static_cast<int32_t>(shards.begin(owner)),
                  static_cast<int32_t>(shards.end(owner)), 0, n};
    };
    for (int rank = 0; rank < ranks_; ++rank) {
      for (int owner = 0; owner < ranks_; ++owner) {
        emit_.read(region_of(rows_of(owner), product_.part_sums, rank));
      }
      if (scatters) {
        const Rect own = rows_of(rank);
        emit_.write(region_of(own.moved(-own.row0), product_.out, rank));
      } else {
        for (int owner = 0; owner < ranks_; ++owner) {
          emit_.write(region_of(rows_of(owner), product_.out, rank));
        }
      }
      emit_.collective(rank, scatters ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce,
                       collectives_);
    }
    ++collectives_;
  }

  Lowering& state_;
  const Operator& op_;
  RoutedLowering& product_;
  RoutedBlocks& blocks_;
  const int ranks_;
  const bool events_;
  Emitter emit_;
  Dealer comm_, compute_;
  int32_t collectives_ = 0;
};

}  // namespace

void emit_routed(Lowering& state, RoutedLowering& product) { Routed(state, product).emit(); }

}  // namespace stretto
