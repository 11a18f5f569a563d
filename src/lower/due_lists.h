// Work of every rank in the order in which it becomes possible.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace stretto {

// A piece, and when its tiles are computed: wave, then position in the order of tiles.
struct Due {
  int64_t when = 0;
  size_t piece = 0;

  static int64_t at(int32_t wave, int32_t position) { return int64_t{wave} << 32 | position; }
  int32_t wave() const { return static_cast<int32_t>(when >> 32); }
  bool operator<(const Due& other) const {
    return when != other.when ? when < other.when : piece < other.piece;
  }
};

class DueLists {
 public:
  explicit DueLists(int ranks)
      : lists_(static_cast<size_t>(ranks)), next_(static_cast<size_t>(ranks), 0) {}

  void add(int rank, const Due& due) { lists_[static_cast<size_t>(rank)].push_back(due); }
  void sort() {
    for (std::vector<Due>& list : lists_) std::sort(list.begin(), list.end());
  }
  size_t count(int rank) const { return lists_[static_cast<size_t>(rank)].size(); }

  // Calls work(piece) for what has become possible by the end of `wave`.
  template <typename Work>
  void take(int rank, int32_t wave, const Work& work) {
    const std::vector<Due>& list = lists_[static_cast<size_t>(rank)];
    size_t& next = next_[static_cast<size_t>(rank)];
    for (; next < list.size() && list[next].wave() <= wave; ++next) work(list[next].piece);
  }

 private:
  std::vector<std::vector<Due>> lists_;
  std::vector<size_t> next_;
};

}  // namespace stretto
