#include "lower/align_owners.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace stretto {
namespace {

class Aligner {
 public:
  explicit Aligner(SegmentLowering& state)
      : state_(state), ranks_(state.op.ranks), count_(static_cast<size_t>(state.grid.count())) {
    for (size_t tile = 0; tile < count_; ++tile) {
      int32_t last = 0;
      for (int rank = 0; rank < ranks_; ++rank) last = std::max(last, wave(rank, tile));
      last_.push_back(last);
    }
  }

  void align() {
    if (is_aligned()) return;
    slots_.assign(static_cast<size_t>(state_.orders[0].waves), 0);
    for (const int32_t wave : state_.orders[0].done_wave) ++slots_[static_cast<size_t>(wave)];
    choose_waves();
    std::vector<std::vector<int32_t>> orders;
    for (int rank = 0; rank < ranks_; ++rank) {
      orders.push_back(order_of(rank));
      if (orders.back().empty()) return;
    }
    for (int rank = 0; rank < ranks_; ++rank) set_order(rank, orders[static_cast<size_t>(rank)]);
  }

 private:
  static constexpr int32_t kAny = INT32_MAX;

  int32_t wave(int rank, size_t tile) const {
    return state_.orders[static_cast<size_t>(rank)].done_wave[tile];
  }
  int first_owner(size_t tile) const { return state_.shards.owner(rect(tile).row0); }
  int last_owner(size_t tile) const { return state_.shards.owner(rect(tile).row1 - 1); }
  const Rect& rect(size_t tile) const { return state_.grid.rect(static_cast<int32_t>(tile)); }

  bool is_aligned() const {
    for (size_t tile = 0; tile < count_; ++tile) {
      for (int owner = first_owner(tile); owner <= last_owner(tile); ++owner) {
        if (wave(owner, tile) < last_[tile]) return false;
      }
    }
    return true;
  }

  // Of every tile, the wave in which its owners compute it: the last one so far, or the next before
  // that in which they all have room for it. Since a wave that leaves one out is full on some rank,
  // from any wave on there are tiles enough for all ranks. Those that find no room stay anywhere.
  void choose_waves() {
    std::vector<size_t> late_first(count_);
    std::iota(late_first.begin(), late_first.end(), size_t{0});
    std::stable_sort(late_first.begin(), late_first.end(), [&](size_t a, size_t b) {
      if (last_[a] != last_[b]) return last_[a] > last_[b];
      return rect(a).col0 > rect(b).col0;
    });
    wave_of_.assign(count_, kAny);
    for (auto wave = static_cast<int32_t>(slots_.size()) - 1; wave >= 0; --wave) {
      std::vector<int32_t> room(static_cast<size_t>(ranks_), slots_[static_cast<size_t>(wave)]);
      for (const size_t tile : late_first) {
        if (last_[tile] < wave) break;
        const auto begin = room.begin() + first_owner(tile);
        const auto end = room.begin() + last_owner(tile) + 1;
        if (wave_of_[tile] != kAny || std::find(begin, end, 0) != end) continue;
        wave_of_[tile] = wave;
        std::for_each(begin, end, [](int32_t& left) { --left; });
      }
    }
  }

  // A rank's own tiles stay in their waves; of the others those that came last so far take the last
  // places that are early enough. Within a wave nothing moves. Empty where a wave is not full.
  std::vector<int32_t> order_of(int rank) const {
    const std::vector<int32_t>& before = state_.orders[static_cast<size_t>(rank)].tiles;
    std::vector<int32_t> waves(count_, -1);  // by position in `before`
    std::vector<int32_t> room = slots_;
    const auto is_own = [&](size_t tile) {
      return wave_of_[tile] != kAny && first_owner(tile) <= rank && rank <= last_owner(tile);
    };
    for (size_t i = 0; i < count_; ++i) {
      const auto tile = static_cast<size_t>(before[i]);
      if (!is_own(tile)) continue;
      waves[i] = wave_of_[tile];
      --room[static_cast<size_t>(waves[i])];
    }
    for (auto wave = static_cast<int32_t>(slots_.size()) - 1; wave >= 0; --wave) {
      int32_t& left = room[static_cast<size_t>(wave)];
      for (size_t i = count_; i-- > 0 && left > 0;) {
        if (waves[i] >= 0 || wave_of_[static_cast<size_t>(before[i])] < wave) continue;
        waves[i] = wave;
        --left;
      }
      if (left != 0) return {};
    }
    std::vector<size_t> places(count_);
    std::iota(places.begin(), places.end(), size_t{0});
    std::stable_sort(places.begin(), places.end(),
                     [&](size_t a, size_t b) { return waves[a] < waves[b]; });
    std::vector<int32_t> tiles;
    for (const size_t place : places) tiles.push_back(before[place]);
    return tiles;
  }

  void set_order(int rank, const std::vector<int32_t>& tiles) {
    TileOrder& order = state_.orders[static_cast<size_t>(rank)];
    std::vector<int32_t> wave_at(count_);
    for (size_t i = 0; i < count_; ++i) {
      wave_at[i] = order.done_wave[static_cast<size_t>(order.tiles[i])];
    }
    order.tiles = tiles;
    for (size_t i = 0; i < count_; ++i) {
      order.position[static_cast<size_t>(tiles[i])] = static_cast<int32_t>(i);
      order.done_wave[static_cast<size_t>(tiles[i])] = wave_at[i];
    }
  }

  SegmentLowering& state_;
  const int ranks_;
  const size_t count_;
  std::vector<int32_t> last_;     // by tile: the last wave in which a rank computes it
  std::vector<int32_t> slots_;    // by wave: tiles
  std::vector<int32_t> wave_of_;  // by tile: in which its owners shall compute it
};

}  // namespace

void align_owners(SegmentLowering& state) {
  if (state.adds_to_parts()) Aligner(state).align();
}

}  // namespace stretto
