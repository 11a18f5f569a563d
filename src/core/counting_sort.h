// Sorting by small numbers, such as positions in a program.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace stretto {

// Items bucket by bucket: `number(item)` says which, below `num_buckets`. Those of one bucket keep
// their order.
template <typename Item>
class Sorted {
 public:
  template <typename Number>
  Sorted(std::span<const Item> items, size_t num_buckets, const Number& number)
      : starts_(num_buckets + 1, 0), items_(items.size()) {
    for (const Item& item : items) ++starts_[number(item) + 1];
    for (size_t i = 0; i < num_buckets; ++i) starts_[i + 1] += starts_[i];
    std::vector<uint32_t> next(starts_.begin(), starts_.end() - 1);
    for (const Item& item : items) items_[next[number(item)]++] = item;
  }

  size_t num_buckets() const { return starts_.size() - 1; }
  std::span<Item> bucket(size_t number) {
    return std::span(items_).subspan(starts_[number], starts_[number + 1] - starts_[number]);
  }
  std::span<const Item> bucket(size_t number) const {
    return std::span(items_).subspan(starts_[number], starts_[number + 1] - starts_[number]);
  }
  // Items in buckets [first, last).
  size_t count(size_t first, size_t last) const { return starts_[last] - starts_[first]; }
  std::vector<Item>& all() { return items_; }

 private:
  std::vector<uint32_t> starts_;
  std::vector<Item> items_;
};

}  // namespace stretto
