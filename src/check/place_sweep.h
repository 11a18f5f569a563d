// Cuts one rank's buffer into the rectangles that its accesses distinguish.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "check/accesses.h"

namespace stretto::checker {

// Goes through the rectangles that every access covers wholly or not at all.
class PlaceSweep {
 public:
  // `accesses`, none empty, are to one buffer on one rank. What nobody covers is visited too within
  // [0, rows) x [0, cols).
  PlaceSweep(std::span<const Access> accesses, int32_t rows, int32_t cols);

  // Calls visit(place, accesses) for every rectangle, top to bottom: `place` has its rows and
  // columns, `accesses` the indices of those that cover it, ascending. Stops when visit returns
  // false. Throws UsageError when the accesses cut each other into absurdly many.
  template <typename Visit>
  void for_each(const Visit& visit) {
    while (next_band()) {
      for (size_t i = 0; i + 1 < cuts_.size(); ++i) {
        const std::span<const uint32_t> here{members_.data() + first_member_[i],
                                             first_member_[i + 1] - first_member_[i]};
        Region place;
        place.row0 = row0_;
        place.row1 = row1_;
        place.col0 = cuts_[i];
        place.col1 = cuts_[i + 1];
        if (!visit(place, here)) return;
      }
    }
  }

 private:
  // The accesses' indices.
  template <typename Row>
  std::vector<uint32_t> sorted_by_row(const Row& row) const;
  // Moves on to the next band of rows between which no access begins or ends.
  bool next_band();
  void cut_columns();

  const std::span<const Access> accesses_;
  const int32_t rows_, cols_;
  std::vector<uint32_t> by_row0_, by_row1_;  // accesses by where they begin and end
  size_t begun_ = 0, ended_ = 0;
  int32_t row0_ = 0, row1_ = 0;
  std::vector<uint32_t> active_;        // accesses that cover the band, ascending
  std::vector<int32_t> cuts_;           // columns at which some access begins or ends
  std::vector<uint32_t> members_;       // the accesses of each piece between two cuts
  std::vector<uint32_t> first_member_;  // by piece: where its accesses begin in members_
  std::vector<uint32_t> next_member_;
  size_t visited_ = 0;
};

}  // namespace stretto::checker
