#include "check/place_sweep.h"

#include <algorithm>
#include <numeric>

#include "core/radix_sort.h"
#include "stretto/error.h"

namespace stretto::checker {
namespace {

// Plans of regular tiles stay far below; a hostile file must not keep a checker busy for days.
constexpr size_t kMaxVisits = size_t{1} << 30;
constexpr size_t kMaxVisitsOfBand = size_t{1} << 27;

}  // namespace

PlaceSweep::PlaceSweep(const AccessGroups& groups, int32_t rows, int32_t cols)
    : groups_(groups), rows_(rows), cols_(cols) {
  by_row0_ = sorted_by_row([&](uint32_t group) { return groups.region(group).row0; });
  by_row1_ = sorted_by_row([&](uint32_t group) { return groups.region(group).row1; });
  // The first band ends where the visited rows or the first access begin.
  row1_ = by_row0_.empty() ? 0 : groups.region(by_row0_.front()).row0;
  if (rows_ > 0) row1_ = std::min(row1_, 0);
}

template <typename Row>
std::vector<uint32_t> PlaceSweep::sorted_by_row(const Row& row) const {
  std::vector<uint32_t> sorted(groups_.count());
  std::iota(sorted.begin(), sorted.end(), 0u);
  // Negative rows first.
  radix_sort(sorted, [&](uint32_t i) { return static_cast<uint32_t>(row(i)) ^ 0x80000000u; });
  return sorted;
}

bool PlaceSweep::next_band() {
  for (;;) {
    row0_ = row1_;
    while (ended_ < by_row1_.size() && groups_.region(by_row1_[ended_]).row1 <= row0_) {
      end(by_row1_[ended_++]);
    }
    while (begun_ < by_row0_.size() && groups_.region(by_row0_[begun_]).row0 <= row0_) {
      begin(by_row0_[begun_++]);
    }
    row1_ = INT32_MAX;
    if (row0_ < rows_) row1_ = rows_;
    if (row0_ < 0) row1_ = 0;
    if (begun_ < by_row0_.size()) {
      row1_ = std::min(row1_, groups_.region(by_row0_[begun_]).row0);
    }
    if (ended_ < by_row1_.size()) {
      row1_ = std::min(row1_, groups_.region(by_row1_[ended_]).row1);
    }
    if (row1_ == INT32_MAX && active_.empty()) return false;
    const bool visited = row0_ >= 0 && row0_ < rows_;
    if (visited != covers_all_) cover_all(visited);
    if (active_.empty() && !visited) continue;
    cut_columns();
    return true;
  }
}

void PlaceSweep::begin(uint32_t group) {
  const Region& region = groups_.region(group);
  active_.insert(std::lower_bound(active_.begin(), active_.end(), group), group);
  num_accesses_ += groups_.of(group).size();
  added_.insert(added_.end(), {region.col0, region.col1});
}

void PlaceSweep::end(uint32_t group) {
  const Region& region = groups_.region(group);
  active_.erase(std::lower_bound(active_.begin(), active_.end(), group));
  num_accesses_ -= groups_.of(group).size();
  dropped_.insert(dropped_.end(), {region.col0, region.col1});
}

void PlaceSweep::cover_all(bool begins) {
  covers_all_ = begins;
  std::vector<int32_t>& cuts = begins ? added_ : dropped_;
  cuts.insert(cuts.end(), {0, cols_});
}

std::vector<PlaceSweep::Cut>::iterator PlaceSweep::find_cut(int32_t col) {
  return std::lower_bound(cuts_.begin(), cuts_.end(), col,
                          [](const Cut& cut, int32_t want) { return cut.col < want; });
}

void PlaceSweep::add_cut(int32_t col) {
  const auto cut = find_cut(col);
  if (cut != cuts_.end() && cut->col == col) {
    ++cut->count;
  } else {
    cuts_.insert(cut, {col, 1});
  }
}

void PlaceSweep::drop_cut(int32_t col) {
  const auto cut = find_cut(col);
  if (--cut->count == 0) cuts_.erase(cut);
}

// From one band to the next there are few changes, and most cuts that are dropped are added too.
void PlaceSweep::change_cuts() {
  constexpr size_t kFew = 1024;
  if (added_.size() + dropped_.size() > kFew) {
    find_all_cuts();
  } else {
    for (const int32_t col : added_) add_cut(col);
    for (const int32_t col : dropped_) drop_cut(col);
  }
  added_.clear();
  dropped_.clear();
}

void PlaceSweep::find_all_cuts() {
  std::vector<int32_t> cols;
  if (covers_all_) cols.assign({0, cols_});
  for (const uint32_t group : active_) {
    cols.push_back(groups_.region(group).col0);
    cols.push_back(groups_.region(group).col1);
  }
  std::sort(cols.begin(), cols.end());
  cuts_.clear();
  for (const int32_t col : cols) {
    if (cuts_.empty() || cuts_.back().col != col) cuts_.push_back({col, 0});
    ++cuts_.back().count;
  }
}

void PlaceSweep::cut_columns() {
  change_cuts();
  const auto piece = [&](int32_t col) {
    return static_cast<uint32_t>(find_cut(col) - cuts_.begin());
  };
  size_t visits = 0, members = 0;
  pieces_.clear();
  for (const uint32_t group : active_) {
    const Region& region = groups_.region(group);
    const Pieces own{piece(region.col0), piece(region.col1)};
    pieces_.push_back(own);
    members += own.end - own.begin;
    visits += (own.end - own.begin) * groups_.of(group).size();
  }
  visited_ += visits + num_accesses_ + 1;
  if (visits > kMaxVisitsOfBand || visited_ > kMaxVisits) {
    throw UsageError("the plan's regions cut each other into too many pieces to check");
  }

  // Counting sort of the groups by the pieces that they cover.
  first_member_.assign(cuts_.size() + 1, 0);
  for (const Pieces& own : pieces_) {
    for (uint32_t i = own.begin; i < own.end; ++i) ++first_member_[i + 1];
  }
  std::partial_sum(first_member_.begin(), first_member_.end(), first_member_.begin());
  members_.resize(members);
  next_member_.assign(first_member_.begin(), first_member_.end());
  for (size_t a = 0; a < active_.size(); ++a) {
    for (uint32_t i = pieces_[a].begin; i < pieces_[a].end; ++i) {
      members_[next_member_[i]++] = active_[a];
    }
  }
}

}  // namespace stretto::checker
