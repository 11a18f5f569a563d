// Ranks that do the same, each with all ranks counted from itself: what is derived for rank 0 holds
// for all of them.
#pragma once

#include <optional>
#include <vector>

#include "stretto/lower.h"

namespace stretto {

// Instructions are named by their position in Draft::program. Those at the same place of the same
// lane of every rank are images of each other.
class AlikeRanks {
 public:
  // Nothing where the ranks' lanes differ, or the order in which they take turns in the program, or
  // where a collective is one event of all ranks. What their instructions touch is not looked at
  // (AlikeTouches does).
  static std::optional<AlikeRanks> find(const Draft& draft);

  int ranks() const { return ranks_; }
  uint32_t count() const { return static_cast<uint32_t>(at_.size()); }  // instructions of all
  int rank_of(uint32_t at) const { return places_[at].rank; }
  // The same for all images of `at`, below the number of a rank's instructions.
  uint32_t index_of(uint32_t at) const { return places_[at].index; }
  // The image of `at` on `rank`.
  uint32_t image(uint32_t at, int rank) const {
    return at_[static_cast<size_t>(rank) * per_rank_ + places_[at].index];
  }
  uint32_t home(uint32_t at) const { return image(at, 0); }
  // A number of the image of `at` that is to rank 0 as `at` is to `rank`, below that of all
  // instructions; the same for all that are so to theirs.
  uint32_t number_seen_by(int rank, uint32_t at) const {
    const Place& place = places_[at];
    const int to = place.rank - rank;
    return static_cast<uint32_t>(to < 0 ? to + ranks_ : to) * per_rank_ + place.index;
  }
  // The image of `at` that is to `rank` as `at` is to rank 0.
  uint32_t turned(uint32_t at, int rank) const {
    const int to = rank_of(at) + rank;
    return image(at, to < ranks_ ? to : to - ranks_);
  }
  // The image of `at` that is to rank 0 as `at` is to `rank`.
  uint32_t seen_by(int rank, uint32_t at) const { return at_[number_seen_by(rank, at)]; }

 private:
  struct Place {
    int32_t rank;
    uint32_t index;  // among its rank's instructions, lane by lane
  };
  int ranks_ = 1;
  uint32_t per_rank_ = 1;      // instructions
  std::vector<Place> places_;  // by position
  std::vector<uint32_t> at_;   // the other way round: by rank and index
};

}  // namespace stretto
