// Cuts one rank's buffer into the rectangles that its accesses distinguish.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "check/access_groups.h"

namespace stretto::checker {

// Goes through the rectangles that every access covers wholly or not at all.
class PlaceSweep {
 public:
  // No region is empty. What nobody covers is visited too within [0, rows) x [0, cols).
  PlaceSweep(const AccessGroups& groups, int32_t rows, int32_t cols);

  // Calls visit(place, groups) for every rectangle, top to bottom: `place` has its rows and
  // columns, `groups` those that cover it, ascending. Stops when visit returns false. Throws
  // UsageError when the accesses cut each other into absurdly many.
  template <typename Visit>
  void for_each(const Visit& visit) {
    while (next_band()) {
      for (size_t i = 0; i + 1 < cuts_.size(); ++i) {
        const std::span<const uint32_t> here{members_.data() + first_member_[i],
                                             first_member_[i + 1] - first_member_[i]};
        Region place;
        place.row0 = row0_;
        place.row1 = row1_;
        place.col0 = cuts_[i].col;
        place.col1 = cuts_[i + 1].col;
        if (!visit(place, here)) return;
      }
    }
  }

 private:
  // A column at which something begins or ends: how often.
  struct Cut {
    int32_t col;
    uint32_t count;
  };

  template <typename Row>
  std::vector<uint32_t> sorted_by_row(const Row& row) const;
  // Moves on to the next band of rows between which no access begins or ends.
  bool next_band();
  void begin(uint32_t group);
  void end(uint32_t group);
  // Of what is visited though nobody covers it.
  void cover_all(bool begins);
  std::vector<Cut>::iterator find_cut(int32_t col);
  void add_cut(int32_t col);
  void drop_cut(int32_t col);
  void change_cuts();
  void find_all_cuts();
  void cut_columns();

  const AccessGroups& groups_;
  const int32_t rows_, cols_;
  std::vector<uint32_t> by_row0_, by_row1_;  // groups by where they begin and end
  size_t begun_ = 0, ended_ = 0;
  int32_t row0_ = 0, row1_ = 0;
  bool covers_all_ = false;
  std::vector<uint32_t> active_;          // groups that cover the band, ascending
  size_t num_accesses_ = 0;               // of these
  std::vector<Cut> cuts_;                 // of these and of what is visited, ascending
  std::vector<int32_t> added_, dropped_;  // cuts since the band before
  struct Pieces {
    uint32_t begin, end;
  };
  std::vector<Pieces> pieces_;          // of each active group, between two cuts
  std::vector<uint32_t> members_;       // the groups of each piece
  std::vector<uint32_t> first_member_;  // by piece: where its groups begin in members_
  std::vector<uint32_t> next_member_;
  size_t visited_ = 0;
};

}  // namespace stretto::checker
