// The GEMM of all ranks: tiles, their ranges of K, and what follows them on their lanes.
#include <algorithm>

#include "lower/edge_row.h"
#include "lower/emit_patterns.h"

namespace stretto {

namespace {

AfterTiles emit_local(SegmentLowering& state, Emitter& emit, bool) {
  emit_gemm(state, emit, own_rows_of_a(state, emit), [&](int rank, int32_t, const Rect& rect) {
    emit.write(region_of(rect, state.buffers.out, rank));
  });
  return {};
}

constexpr Pattern kLocal{
    .lay_out_rows = lay_out_plain, .emit_tiles = emit_local, .communicates = false};

const Pattern& local(const Segment&, const Schedule&) { return kLocal; }

}  // namespace

const EdgeRow edges::none{check_moves, local};

KRange k_range(const SegmentLowering& state, int index, int ranges) {
  const int64_t k = state.op.local_k(), steps = (k + kSplitStep - 1) / kSplitStep;
  const auto begin = [&](int i) {
    return static_cast<int32_t>(std::min(k, steps * i / ranges * kSplitStep));
  };
  return {begin(index), begin(index + 1)};
}

std::vector<KRange> source_ranges(const SegmentLowering& state, int rank) {
  const ColShards shares = state.col_shards();
  std::vector<KRange> all;
  for (int i = 0; i < state.op.ranks; ++i) {
    const int source = (rank + i) % state.op.ranks;
    all.push_back(
        {static_cast<int32_t>(shares.begin(source)), static_cast<int32_t>(shares.end(source))});
  }
  return all;
}

namespace {

std::vector<KRange> k_ranges(const SegmentLowering& state, int ranges) {
  std::vector<KRange> all;
  for (int i = 0; i < ranges; ++i) all.push_back(k_range(state, i, ranges));
  return all;
}

// By rank: the phases of its tiles, in the order in which it takes them.
std::vector<std::vector<KRange>> phases_by_rank(const SegmentLowering& state) {
  const bool by_source = state.exchanges() && state.phases() > 1;
  std::vector<std::vector<KRange>> all;
  for (int rank = 0; rank < state.op.ranks; ++rank) {
    all.push_back(by_source ? source_ranges(state, rank) : k_ranges(state, state.phases()));
  }
  return all;
}

// What follows a product's tile on its lane: each stage takes the tile where the one before left
// it, and the last one's goes where the product's would.
class Followers {
 public:
  Followers(const SegmentLowering& state, Emitter& emit, const WriteTile& write_tile)
      : state_(state), emit_(emit), write_tile_(write_tile) {}

  void write_product(int rank, int32_t tile, size_t weight) const {
    const Rect rect = state_.rect_of(rank, tile);
    if (!state_.has_followers()) return write_tile_(rank, tile, rect);
    emit_.write(kept(weight, rank, rect));
  }

  void emit_all(int rank, int32_t tile, uint32_t lane) const {
    for (size_t i = state_.weights.size(); i < state_.part.stages.size(); ++i) {
      emit_one(i, rank, tile, state_.rect_of(rank, tile), lane);
    }
  }

  // What follows the tiles of a kernel that ends here, in as many blocks of rows as there are
  // lanes.
  void emit_behind(int rank, const TileOrder& order, const TileKernel& kernel) const {
    emit_.boundary(rank);
    const std::vector<Rect> blocks = blocks_of(rank, order, kernel);
    for (size_t i = state_.weights.size(); i < state_.part.stages.size(); ++i) {
      int32_t lane = 0;
      for (const Rect& rows : blocks) {
        emit_one(i, rank, -1, rows, state_.lanes.compute_lane(rank, lane));
        lane = (lane + 1) % state_.lanes.compute;
      }
    }
  }

 private:
  // A library's kernels have all tiles of the rows that they have any of.
  std::vector<Rect> blocks_of(int rank, const TileOrder& order, const TileKernel& kernel) const {
    std::vector<bool> has(static_cast<size_t>(state_.grid.num_rows()), false);
    for (int32_t i = kernel.first; i < kernel.last; ++i) {
      has[static_cast<size_t>(state_.grid.row_of(order.tiles[static_cast<size_t>(i)]))] = true;
    }
    const auto cols = static_cast<int32_t>(state_.op.local_n());
    std::vector<Rect> runs;
    int32_t rows = 0;
    for (int32_t r = 0; r < state_.grid.num_rows(); ++r) {
      if (!has[static_cast<size_t>(r)]) continue;
      const TileRow& tiles = state_.grid.row(r);
      const Rect rect = state_.on(rank, {tiles.row0, tiles.row1, 0, cols});
      if (rect.row0 >= rect.row1) continue;
      rows += rect.rows();
      if (!runs.empty() && runs.back().row1 == rect.row0) {
        runs.back().row1 = rect.row1;
      } else {
        runs.push_back(rect);
      }
    }
    std::vector<Rect> blocks;
    for (const Rect& run : runs) {
      const auto count = static_cast<int32_t>(
          std::max<int64_t>(1, int64_t{run.rows()} * std::min(state_.lanes.compute, rows) / rows));
      const auto at = [&](int32_t i) {
        return run.row0 + static_cast<int32_t>(int64_t{run.rows()} * i / count);
      };
      for (int32_t i = 0; i < count; ++i) blocks.push_back({at(i), at(i + 1), 0, cols});
    }
    return blocks;
  }

  void emit_one(size_t i, int rank, int32_t tile, const Rect& rect, uint32_t lane) const {
    const std::vector<int>& stages = state_.part.stages;
    const Stage& stage = state_.whole.stage(stages[i]);
    for (const int in : stage.in) read(in, rank, rect);
    if (i + 1 < stages.size()) {
      emit_.write(kept(i, rank, rect));
    } else {
      write_tile_(rank, tile, rect);
    }
    emit_.stage(lane, stage, tile);
  }

  Region kept(size_t stage, int rank, const Rect& rect) const {
    const bool is_beside = state_.keeps_beside && stage < state_.weights.size();
    const auto right = static_cast<int32_t>(is_beside ? stage * state_.op.local_n() : 0);
    return region_of(rect.moved(0, right), state_.kept[stage], rank);
  }
  // What a stage before has left, or the caller's row.
  void read(int tensor, int rank, const Rect& rect) const {
    const std::vector<int>& stages = state_.part.stages;
    for (size_t i = 0; i < stages.size(); ++i) {
      if (state_.whole.stage(stages[i]).out == tensor) return emit_.read(kept(i, rank, rect));
    }
    const uint16_t row = *state_.plan.find_buffer(state_.whole.tensor(tensor).name);
    const auto own = static_cast<int32_t>(state_.op.local_n());
    const int32_t first = state_.plan.buffers[row].cols != own ? rank * own : 0;
    emit_.read(region_of({0, 1, first + rect.col0, first + rect.col1}, row, rank));
  }

  const SegmentLowering& state_;
  Emitter& emit_;
  const WriteTile& write_tile_;
};

// The weight whose product comes range by range; the other one multiplies all of K behind it. What
// is gated is in the sums of its ranges when the gate takes both.
size_t weight_in_ranges(const SegmentLowering& state) {
  if (state.weights.size() == 1) return 0;
  const std::vector<int>& stages = state.part.stages;
  const int gated = state.whole.stage(stages[state.weights.size()]).in[0];
  size_t weight = 0;
  while (state.whole.stage(stages[weight]).out != gated) ++weight;
  return weight;
}

// Where the sums of a range of a tile's K are kept.
Region sums_of_range(const SegmentLowering& state, int rank, const Rect& tile, int index) {
  const auto down = static_cast<int32_t>(index * state.op.local_m());
  return region_of(tile.moved(down), state.buffers.ranges, rank);
}

}  // namespace

void emit_gemm(SegmentLowering& state, Emitter& emit, const ReadA& read_a,
               const WriteTile& write_tile, const std::function<void(int32_t)>& after_wave) {
  const int32_t lanes = state.lanes.compute, splits = state.splits();
  const std::vector<KRange> of_split = k_ranges(state, splits);
  const std::vector<std::vector<KRange>> of_phase = phases_by_rank(state);
  const Followers followers(state, emit, write_tile);
  const auto multiply = [&](int rank, const Rect& rect, size_t weight, KRange k) {
    read_a(rank, rect, k);
    emit.read(region_of({rect.col0, rect.col1, k.begin, k.end}, state.weights[weight], rank));
  };
  const auto emit_whole = [&](int rank, int32_t tile, size_t weight, uint32_t lane) {
    multiply(rank, state.rect_of(rank, tile), weight, k_range(state, 0, 1));
    followers.write_product(rank, tile, weight);
    emit.task(lane, Opcode::gemm, tile);
  };
  const size_t in_ranges = weight_in_ranges(state);
  const auto emit_range = [&](int rank, int32_t tile, int range, const std::vector<KRange>& all,
                              uint32_t lane) {
    const Rect rect = state.rect_of(rank, tile);
    multiply(rank, rect, in_ranges, all[static_cast<size_t>(range)]);
    emit.write(sums_of_range(state, rank, rect, range));
    emit.task(lane, Opcode::gemm, tile);
  };
  const auto emit_sum = [&](int rank, int32_t tile, int ranges, uint32_t lane) {
    for (int i = 0; i < ranges; ++i) {
      emit.read(sums_of_range(state, rank, state.rect_of(rank, tile), i));
    }
    followers.write_product(rank, tile, in_ranges);
    emit.task(lane, Opcode::reduce, tile);
    for (size_t weight = 0; weight < state.weights.size(); ++weight) {
      if (weight != in_ranges) emit_whole(rank, tile, weight, lane);
    }
    followers.emit_all(rank, tile, lane);
  };
  // Task `turn` of a tile's.
  const auto emit_task = [&](int rank, int32_t tile, int32_t turn, uint32_t lane) {
    if (state.in_phases(rank, tile)) {
      const std::vector<KRange>& all = of_phase[static_cast<size_t>(rank)];
      for (int i = 0; i < state.phases(); ++i) emit_range(rank, tile, i, all, lane);
      return emit_sum(rank, tile, state.phases(), lane);
    }
    if (splits == 1) {
      for (size_t weight = 0; weight < state.weights.size(); ++weight) {
        emit_whole(rank, tile, weight, lane);
      }
      if (!state.follows_behind()) followers.emit_all(rank, tile, lane);
      return;
    }
    emit_range(rank, tile, turn + 1 < splits ? turn + 1 : 0, of_split, lane);
    if (turn + 1 == splits) emit_sum(rank, tile, splits, lane);
  };

  int32_t waves = 0;
  for (const TileOrder& order : state.orders) waves = std::max(waves, order.waves);
  std::vector<size_t> at(state.orders.size(), 0);  // kernel of each rank
  for (int32_t wave = 0; wave < waves; ++wave) {
    for (int rank = 0; rank < state.op.ranks; ++rank) {
      const TileOrder& order = state.orders[static_cast<size_t>(rank)];
      size_t& k = at[static_cast<size_t>(rank)];
      if (k == order.kernels.size()) continue;
      const TileKernel& kernel = order.kernels[k];
      if (wave == kernel.first_wave && kernel.opens) emit.boundary(rank);
      const int32_t first = kernel.first * splits + (wave - kernel.first_wave) * lanes;
      const int32_t end = std::min(first + lanes, kernel.last * splits);
      for (int32_t i = first; i < end; ++i) {
        const int32_t tile = splits == 1 ? i : i / splits;
        emit_task(rank, order.tiles[static_cast<size_t>(tile)], i - tile * splits,
                  state.lanes.compute_lane(rank, i - first));
      }
      if (wave + 1 < kernel.end_wave) continue;
      if (state.follows_behind()) {
        // One pass for all rows starts sooner than one behind each kernel; but what is sent on from
        // there is sent kernel by kernel.
        const TileKernel all{.first = order.kernels.front().first, .last = kernel.last};
        const bool is_last = k + 1 == order.kernels.size();
        if (!state.gathers()) followers.emit_behind(rank, order, kernel);
        if (state.gathers() && is_last) followers.emit_behind(rank, order, all);
      }
      if (kernel.closes) emit.boundary(rank);
      ++k;
    }
    if (after_wave) after_wave(wave);
  }
}

ReadA own_rows_of_a(const SegmentLowering& state, Emitter& emit) {
  // A rank that has all of A multiplies the columns that its part of the weight is for.
  const auto own = static_cast<int32_t>(state.op.local_k());
  const bool has_all = state.plan.buffers[state.buffers.a].cols != own;
  return [&state, &emit, own, has_all](int rank, const Rect& tile, KRange k) {
    const int32_t col0 = has_all ? rank * own : 0;
    state.layout.for_each_run(tile.row0, tile.row1, [&](int32_t row0, int32_t row1) {
      emit.read(region_of({row0, row1, col0 + k.begin, col0 + k.end}, state.buffers.a, rank));
    });
  };
}

std::vector<int32_t> groups_done(const SegmentLowering& state,
                                 const std::function<int32_t(int32_t)>& group_of, size_t groups) {
  std::vector<int32_t> done(groups, 0);
  for (const TileOrder& order : state.orders) {
    for (int32_t tile = 0; tile < state.grid.count(); ++tile) {
      int32_t& wave = done[static_cast<size_t>(group_of(tile))];
      wave = std::max(wave, order.done_wave[static_cast<size_t>(tile)]);
    }
  }
  return done;
}

uint32_t copy_lane(const SegmentLowering& state, int rank, int peer) {
  const bool network = state.lanes.copy > 1 && !state.machine.same_node(rank, peer);
  return state.lanes.copy_lane(rank, network ? 1 : 0);
}

}  // namespace stretto
