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

PlaceSweep::PlaceSweep(std::span<const Access> accesses, int32_t rows, int32_t cols)
    : accesses_(accesses), rows_(rows), cols_(cols) {
  by_row0_ = sorted_by_row([&](uint32_t i) { return accesses[i].region.row0; });
  by_row1_ = sorted_by_row([&](uint32_t i) { return accesses[i].region.row1; });
  // The first band ends where the visited rows or the first access begin.
  row1_ = by_row0_.empty() ? 0 : accesses[by_row0_.front()].region.row0;
  if (rows_ > 0) row1_ = std::min(row1_, 0);
}

template <typename Row>
std::vector<uint32_t> PlaceSweep::sorted_by_row(const Row& row) const {
  std::vector<uint32_t> sorted(accesses_.size());
  std::iota(sorted.begin(), sorted.end(), 0u);
  // Negative rows first.
  radix_sort(sorted, [&](uint32_t i) { return static_cast<uint32_t>(row(i)) ^ 0x80000000u; });
  return sorted;
}

bool PlaceSweep::next_band() {
  for (;;) {
    row0_ = row1_;
    while (ended_ < by_row1_.size() && accesses_[by_row1_[ended_]].region.row1 <= row0_) {
      const uint32_t gone = by_row1_[ended_++];
      active_.erase(std::lower_bound(active_.begin(), active_.end(), gone));
    }
    while (begun_ < by_row0_.size() && accesses_[by_row0_[begun_]].region.row0 <= row0_) {
      const uint32_t come = by_row0_[begun_++];
      active_.insert(std::lower_bound(active_.begin(), active_.end(), come), come);
    }
    row1_ = INT32_MAX;
    if (row0_ < rows_) row1_ = rows_;
    if (row0_ < 0) row1_ = 0;
    if (begun_ < by_row0_.size()) {
      row1_ = std::min(row1_, accesses_[by_row0_[begun_]].region.row0);
    }
    if (ended_ < by_row1_.size()) {
      row1_ = std::min(row1_, accesses_[by_row1_[ended_]].region.row1);
    }
    if (row1_ == INT32_MAX && active_.empty()) return false;
    const bool visited = row0_ >= 0 && row0_ < rows_;
    if (active_.empty() && !visited) continue;
    cut_columns();
    return true;
  }
}

void PlaceSweep::cut_columns() {
  cuts_.clear();
  if (row0_ >= 0 && row0_ < rows_) cuts_.assign({0, cols_});
  for (uint32_t a : active_) {
    cuts_.push_back(accesses_[a].region.col0);
    cuts_.push_back(accesses_[a].region.col1);
  }
  std::sort(cuts_.begin(), cuts_.end());
  cuts_.erase(std::unique(cuts_.begin(), cuts_.end()), cuts_.end());

  auto cell = [&](int32_t col) {
    return static_cast<size_t>(std::lower_bound(cuts_.begin(), cuts_.end(), col) - cuts_.begin());
  };
  size_t visits = 0;
  for (uint32_t a : active_) {
    visits += cell(accesses_[a].region.col1) - cell(accesses_[a].region.col0);
  }
  visited_ += visits + active_.size() + 1;
  if (visits > kMaxVisitsOfBand || visited_ > kMaxVisits) {
    throw UsageError("the plan's regions cut each other into too many pieces to check");
  }

  // Counting sort of the accesses by the pieces that they cover.
  first_member_.assign(cuts_.size() + 1, 0);
  for (uint32_t a : active_) {
    const size_t end = cell(accesses_[a].region.col1);
    for (size_t i = cell(accesses_[a].region.col0); i < end; ++i) ++first_member_[i + 1];
  }
  std::partial_sum(first_member_.begin(), first_member_.end(), first_member_.begin());
  members_.resize(visits);
  next_member_.assign(first_member_.begin(), first_member_.end());
  for (uint32_t a : active_) {
    const size_t end = cell(accesses_[a].region.col1);
    for (size_t i = cell(accesses_[a].region.col0); i < end; ++i) members_[next_member_[i]++] = a;
  }
}

}  // namespace stretto::checker
