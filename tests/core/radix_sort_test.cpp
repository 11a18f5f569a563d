#include "core/radix_sort.h"

#include <gtest/gtest.h>

#include <random>

namespace stretto {
namespace {

struct Item {
  uint64_t key = 0;
  int place = 0;  // before sorting
  bool operator==(const Item&) const = default;
};

TEST(RadixSort, DoesWhatAStableSortDoes) {
  std::mt19937_64 random(3);
  // Keys of few and of all bits, with common bits, many times over and in order already.
  for (const uint64_t mask :
       {uint64_t{0}, uint64_t{7}, uint64_t{0xff00ff}, uint64_t{1} << 63 | 1, ~uint64_t{0}}) {
    for (const int count : {0, 1, 2, 300}) {
      std::vector<Item> items;
      for (int i = 0; i < count; ++i) items.push_back({(random() & mask) | 0x1000, i});
      std::vector<Item> expected = items;
      std::stable_sort(expected.begin(), expected.end(),
                       [](const Item& a, const Item& b) { return a.key < b.key; });
      radix_sort(items, [](const Item& item) { return item.key; });
      EXPECT_EQ(items, expected) << mask << " " << count;
      radix_sort(items, [](const Item& item) { return item.key; });
      EXPECT_EQ(items, expected) << "in order already";
    }
  }
}

}  // namespace
}  // namespace stretto
