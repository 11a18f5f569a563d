// ag-gemm with movers that push: every rank sends its rows to all others, stripe by stripe, first
// what the others' first tiles need. With k-phases it sends all stripes that a wave of tiles needs
// in ranges of K, the first of all of them first.
#include <algorithm>
#include <map>
#include <tuple>

#include "lower/declarer.h"
#include "lower/edge_row.h"
#include "lower/emit_rows.h"
#include "lower/peer_order.h"
#include "lower/ranks_in_turn.h"
#include "lower/rect_pusher.h"

namespace stretto {
namespace {

class Pusher {
 public:
  Pusher(SegmentLowering& state, Emitter& emit) : state_(state), pusher_(state, emit) {}

  void emit() {
    std::vector<std::vector<Push>> pushes;
    for (int rank = 0; rank < state_.op.ranks; ++rank) pushes.push_back(pushes_of(rank));
    ranks_in_turn(pushes, [&](int rank, const Push& one) { push(rank, one); });
  }

 private:
  struct Push {
    Rect rows;     // of the matrix
    int32_t tile;  // the first that needs them
    std::vector<int> to;
    int32_t wave = 0, phase = 0;  // the first wave of tiles that needs them
  };

  // One push stores to all peers: loaded once. Copy engines know one destination only, and pushes
  // that cross nodes would hold up those that do not.
  std::vector<std::vector<int>> destinations(int rank) const {
    const Schedule& schedule = state_.schedule;
    const std::vector<int> peers =
        peer_order(schedule.order, true, rank, state_.op.ranks, state_.machine);
    std::vector<std::vector<int>> result;
    for (const int peer : peers) {
      const bool joins = !result.empty() && schedule.mover == Mover::comm_blocks &&
                         (schedule.order != Order::node_then_local ||
                          state_.machine.same_node(peer, rank) ==
                              state_.machine.same_node(result.back()[0], rank));
      if (!joins) result.emplace_back();
      result.back().push_back(peer);
    }
    if (!state_.gathers_own_rows()) return result;
    const bool joins = !result.empty() && schedule.mover == Mover::comm_blocks &&
                       (schedule.order != Order::node_then_local ||
                        state_.machine.same_node(result.front()[0], rank));
    if (!joins) result.emplace(result.begin());
    result.front().push_back(rank);
    return result;
  }

  std::vector<Push> pushes_of(int rank) const {
    const Pieces& pieces = state_.pieces;
    const auto first = static_cast<size_t>(pieces.first[static_cast<size_t>(rank)]);
    const auto last = static_cast<size_t>(pieces.first[static_cast<size_t>(rank) + 1]);
    const std::vector<std::vector<int>> peers = destinations(rank);
    std::vector<Push> pushes;
    auto add = [&](size_t piece, const std::vector<int>& to) {
      pushes.push_back({pieces.all[piece].rect, pieces.tiles_of(piece)[0], to});
    };
    // Consumers take the stripes of all sources in turn, or shard by shard.
    const Order order = state_.schedule.order;
    if (order == Order::arrival || order == Order::interleaved) {
      for (size_t piece = first; piece < last; ++piece) {
        for (const std::vector<int>& to : peers) add(piece, to);
      }
    } else {
      for (const std::vector<int>& to : peers) {
        for (size_t piece = first; piece < last; ++piece) add(piece, to);
      }
    }
    const std::vector<Push> own =
        state_.gathers_own_rows() ? std::vector<Push>() : shared_rows(rank);
    if (!pushes.empty()) pushes.insert(pushes.begin() + 1, own.begin(), own.end());
    // Kernels that begin when all is there have no tiles that begin sooner.
    return state_.schedule.sync == Sync::event ? pushes : in_order_of_need(rank, pushes);
  }

  // What is needed in a wave of tiles, which begin together, is sent phase by phase, and behind
  // what an earlier wave needs: a stripe goes first to those ranks whose next wave has tiles of it.
  std::vector<Push> in_order_of_need(int sender, const std::vector<Push>& stripes) const {
    const int phases = state_.schedule.k_phases;
    std::vector<Push> pushes;
    for (const Push& stripe : stripes) {
      for (Push push : by_wave(sender, stripe)) {
        for (push.phase = 0; push.phase < phases; ++push.phase) {
          const KRange k = k_range(state_, push.phase, phases);
          push.rows.col0 = k.begin;
          push.rows.col1 = k.end;
          pushes.push_back(push);
        }
      }
    }
    std::stable_sort(pushes.begin(), pushes.end(), [](const Push& a, const Push& b) {
      return std::tie(a.wave, a.phase) < std::tie(b.wave, b.phase);
    });
    return pushes;
  }

  // Ranks of other nodes are reached so late that what is pushed behind would wait for them: a
  // stripe that goes to one is pushed to all at once.
  std::vector<Push> by_wave(int sender, const Push& stripe) const {
    std::map<int32_t, std::vector<int>> ranks;
    for (const int rank : stripe.to) ranks[first_wave(stripe.rows, rank)].push_back(rank);
    const bool is_near = std::all_of(stripe.to.begin(), stripe.to.end(), [&](int rank) {
      return state_.machine.same_node(sender, rank);
    });
    if (!is_near) return {{stripe.rows, stripe.tile, stripe.to, ranks.begin()->first}};
    std::vector<Push> pushes;
    for (const auto& [wave, to] : ranks) pushes.push_back({stripe.rows, stripe.tile, to, wave});
    return pushes;
  }

  // Of `rank`'s tiles that need these rows.
  int32_t first_wave(Rect rows, int rank) const {
    int32_t first = state_.grid.count();
    const std::vector<int32_t>& position = state_.orders[static_cast<size_t>(rank)].position;
    rows.col1 = static_cast<int32_t>(state_.op.local_n());  // of K until here
    state_.grid.for_each_overlap(
        rows, [&](int32_t tile) { first = std::min(first, position[static_cast<size_t>(tile)]); });
    return first / state_.tiles_at_once();
  }

  // Own rows of tiles that also have rows of others: such tiles read all their rows from `ag`.
  std::vector<Push> shared_rows(int rank) const {
    std::vector<Push> pushes;
    const auto begin = static_cast<int32_t>(state_.shards.begin(rank));
    const auto end = static_cast<int32_t>(state_.shards.end(rank));
    if (begin == end) return pushes;
    const TileGrid& grid = state_.grid;
    const int32_t last = grid.row_at(end - 1);
    for (int32_t row = grid.row_at(begin);; row = last) {
      const TileRow& r = grid.row(row);
      const Rect rows{std::max(begin, r.row0), std::min(end, r.row1), 0,
                      static_cast<int32_t>(state_.op.k)};
      if (rows.rows() < r.row1 - r.row0) pushes.push_back({rows, row * grid.cols(), {rank}});
      if (row == last) return pushes;
    }
  }

  void push(int rank, const Push& push) {
    const auto begin = static_cast<int32_t>(state_.shards.begin(rank));
    pusher_.push(rank, push.rows, -begin, 0, state_.buffers.gathered, push.to, push.tile);
  }

  SegmentLowering& state_;
  RectPusher pusher_;
};

void push_rows(SegmentLowering& state, Emitter& emit) { Pusher(state, emit).emit(); }

AfterTiles emit_gathered(SegmentLowering& state, Emitter& emit, bool) {
  emit_gemm(
      state, emit,
      [&](int rank, const Rect& tile, KRange k) {
        const Rect rows{tile.row0, tile.row1, k.begin, k.end};
        const auto begin = static_cast<int32_t>(state.shards.begin(rank));
        emit.read(state.owns_rows(rank, tile) ? region_of(rows.moved(-begin), state.buffers.a, rank)
                                              : region_of(rows, state.buffers.gathered, rank));
      },
      [&](int rank, int32_t, const Rect& rect) {
        emit.write(region_of(rect, state.buffers.out, rank));
      });
  return {};
}

void declare_gathered(SegmentLowering& state, const PatternBuffers& buffers) {
  const Segment& op = state.op;
  state.buffers.gathered = buffers.symmetric("ag", op.dtype, op.m, op.k);
}

// Own rows are pushed to all peers, and then tiles.
constexpr Pattern kPushGather{.lay_out_rows = lay_out_shards,
                              .cut_pieces = cut_input_of_shards,
                              .declare_buffers = declare_gathered,
                              .emit_input = push_rows,
                              .emit_tiles = emit_gathered,
                              .moves_input = true};

const Pattern& gather_by(const Segment&, const Schedule& schedule) {
  return schedule.mover == Mover::nccl ? patterns::nccl_gather : kPushGather;
}

}  // namespace

const EdgeRow edges::gather{check_moves, gather_by, emit_gathered_output};

}  // namespace stretto
