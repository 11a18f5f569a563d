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
    std::sort(list_.begin(), list_.end(), [](const HeldTile& a, const HeldTile& b) {
      return std::pair(a.tile.row0, a.tile.col0) < std::pair(b.tile.row0, b.tile.col0);
    });
    for (size_t i = 0; i < list_.size(); ++i) {
      const Region& tile = list_[i].tile;
      if (i == 0 || tile.row0 != rows_.back().row0) rows_.push_back({tile.row0, i});
      most_rows_ = std::max(most_rows_, tile.rows());
      most_cols_ = std::max(most_cols_, tile.cols());
    }
  }
  const std::vector<HeldTile>& all() const { return list_; }

  // Once sorted.
  void add_read(const Region& read, const InstrRef& reader) {
    if (list_.empty() || read.row1 <= rows_.front().row0 ||
        read.row0 - int64_t{most_rows_} >= rows_.back().row0) {
      return;
    }
    auto row =
        std::upper_bound(rows_.begin(), rows_.end(), read.row0 - int64_t{most_rows_},
                         [](int64_t place, const TilesOfRow& one) { return place < one.row0; });
    for (; row != rows_.end() && row->row0 < read.row1; ++row) {
      const auto end = row + 1 == rows_.end() ? list_.end() : at(row[1].first);
      auto one = std::upper_bound(
          at(row->first), end, read.col0 - int64_t{most_cols_},
          [](int64_t place, const HeldTile& held) { return place < held.tile.col0; });
      for (; one != end && one->tile.col0 < read.col1; ++one) {
        if (one->taker != reader && one->tile.overlaps(read)) one->reader = reader;
      }
    }
  }

 private:
  struct TilesOfRow {
    int32_t row0;
    size_t first;  // of those that begin there
  };
  std::vector<HeldTile>::iterator at(size_t i) {
    return list_.begin() + static_cast<std::ptrdiff_t>(i);
  }

  std::vector<HeldTile> list_;
  std::vector<TilesOfRow> rows_;
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
  // Mostly it is that of the region before.
  std::vector<std::pair<uint32_t, HeldTiles>>::iterator at_or_behind(const Region& region) {
    const uint32_t sought = key(region);
    if (last_ >= places_.size() || places_[last_].first != sought) {
      const auto found =
          std::lower_bound(places_.begin(), places_.end(), sought,
                           [](const auto& one, uint32_t other) { return one.first < other; });
      last_ = static_cast<size_t>(found - places_.begin());
    }
    return places_.begin() + static_cast<std::ptrdiff_t>(last_);
  }

  std::vector<std::pair<uint32_t, HeldTiles>> places_;  // by rank and buffer
  size_t last_ = 0;                                     // place
};

}  // namespace stretto
