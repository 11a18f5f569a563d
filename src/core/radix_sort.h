// Sorting many items by a number.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace stretto {

// By `key(item)`, 64 bits without sign; items of the same key keep their order. Takes a pass over
// the items for every byte in which keys differ.
template <typename Item, typename Key>
void radix_sort(std::vector<Item>& items, const Key& key) {
  const auto in_order = [&](const Item& a, const Item& b) { return key(a) < key(b); };
  if (std::is_sorted(items.begin(), items.end(), in_order)) return;
  uint64_t differ = 0;
  for (const Item& item : items) differ |= uint64_t{key(item)} ^ uint64_t { key(items.front()) };
  std::vector<Item> sorted(items.size());
  for (int shift = 0; shift < 64; shift += 8) {
    if ((differ >> shift & 0xff) == 0) continue;
    const auto byte = [&](const Item& item) { return uint64_t{key(item)} >> shift & 0xff; };
    std::array<size_t, 256> next{};
    for (const Item& item : items) ++next[byte(item)];
    size_t count = 0;
    for (size_t& place : next) {
      const size_t of_byte = place;
      place = count;
      count += of_byte;
    }
    for (const Item& item : items) sorted[next[byte(item)]++] = item;
    std::swap(items, sorted);
  }
}

}  // namespace stretto
