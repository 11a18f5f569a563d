// Tiles that one task leaves in registers for the next: who else reads them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "stretto/plan.h"

namespace stretto {

// A tile as the task reads it that goes on with it.
struct HeldTile {
  Region tile;
  InstrRef taker;
  std::optional<InstrRef> reader = {};  // another one
};

// Those of one buffer of one rank, by place.
class HeldTiles {
 public:
  void add(const HeldTile& tile) { list_.push_back(tile); }
  void sort() {
    std::sort(list_.begin(), list_.end(),
              [](const HeldTile& a, const HeldTile& b) { return place(a) < place(b); });
    for (const HeldTile& one : list_) {
      most_rows_ = std::max(most_rows_, one.tile.rows());
      most_cols_ = std::max(most_cols_, one.tile.cols());
    }
  }
  const std::vector<HeldTile>& all() const { return list_; }

  // Once sorted.
  void add_read(const Region& read, const InstrRef& reader) {
    if (list_.empty() || read.row1 <= list_.front().tile.row0 ||
        read.row0 - int64_t{most_rows_} >= list_.back().tile.row0) {
      return;
    }
    // Tile row by tile row.
    for (auto one = behind(list_.begin(), read.row0 - int64_t{most_rows_}, INT64_MAX);
         one != list_.end() && one->tile.row0 < read.row1;) {
      const int32_t row = one->tile.row0;
      for (one = behind(one, row, read.col0 - int64_t{most_cols_});
           one != list_.end() && one->tile.row0 == row && one->tile.col0 < read.col1; ++one) {
        if (one->taker != reader && one->tile.overlaps(read)) one->reader = reader;
      }
      one = behind(one, row, INT64_MAX);
    }
  }

 private:
  using Place = std::pair<int64_t, int64_t>;
  static Place place(const HeldTile& one) { return {one.tile.row0, one.tile.col0}; }
  // The first from `from` on that lies behind the place.
  std::vector<HeldTile>::iterator behind(std::vector<HeldTile>::iterator from, int64_t row,
                                         int64_t col) {
    return std::upper_bound(from, list_.end(), Place(row, col),
                            [](const Place& at, const HeldTile& one) { return at < place(one); });
  }

  std::vector<HeldTile> list_;
  int32_t most_rows_ = 0, most_cols_ = 0;
};

// Those of all buffers and ranks that have some.
class PlacesOfTiles {
 public:
  void add(const HeldTile& tile) {
    const auto at = at_or_behind(tile.tile);
    const bool is_new = at == places_.end() || at->first != key(tile.tile);
    (is_new ? places_.insert(at, {key(tile.tile), {}}) : at)->second.add(tile);
  }
  void sort() {
    for (auto& [key, tiles] : places_) tiles.sort();
  }
  bool empty() const { return places_.empty(); }
  // Once sorted.
  void add_read(const Region& read, const InstrRef& reader) {
    const auto at = at_or_behind(read);
    if (at != places_.end() && at->first == key(read)) at->second.add_read(read, reader);
  }
  const std::vector<std::pair<uint32_t, HeldTiles>>& all() const { return places_; }

 private:
  static uint32_t key(const Region& region) { return uint32_t{region.rank} << 16 | region.buffer; }
  std::vector<std::pair<uint32_t, HeldTiles>>::iterator at_or_behind(const Region& region) {
    return std::lower_bound(places_.begin(), places_.end(), key(region),
                            [](const auto& one, uint32_t other) { return one.first < other; });
  }

  std::vector<std::pair<uint32_t, HeldTiles>> places_;  // by rank and buffer
};

}  // namespace stretto
