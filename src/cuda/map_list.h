// The tensor maps of a launch, each once.
#pragma once

#include <array>
#include <bit>
#include <vector>

#include "cuda/plan_tables.h"
#include "cuda/table_basis.h"

namespace stretto::cuda {

class MapList {
 public:
  explicit MapList(const TableBasis& basis);

  size_t count() const { return sets_[0].size(); }
  // The number of the map of the first `columns` columns of the region's buffer; of `box_rows` rows
  // at once when it stores.
  uint16_t number_of(MapSpec::Use use, const Region& region, int32_t columns, int box_rows = 0) {
    const size_t place = region.buffer * ranks_ + region.rank;
    const size_t list = place * kUses + static_cast<size_t>(use);
    const int box = std::bit_width(static_cast<unsigned>(box_rows));
    // Most lists have one: of all columns.
    const OfColumns& first = lists_[list];
    const uint16_t number = first.numbers[static_cast<size_t>(box)];
    if (first.columns == columns && number != kNone) return number;
    return find_or_add(list, use, region, columns, box_rows);
  }
  // Set after set.
  std::vector<MapSpec> all() const;

 private:
  static constexpr uint16_t kNone = UINT16_MAX;
  static constexpr size_t kUses = 4, kBoxes = 8;
  // Maps of one buffer for one use, by the binary logarithm of box_rows; 0: without a box.
  struct OfColumns {
    int32_t columns = -1;
    uint32_t next = 0;  // of other columns, in lists_; 0: there is none
    std::array<uint16_t, kBoxes> numbers;
    OfColumns() { numbers.fill(kNone); }
  };
  OfColumns& of_columns(size_t list, int32_t columns);
  uint16_t find_or_add(size_t list, MapSpec::Use use, const Region& region, int32_t columns,
                       int box_rows);
  uint16_t add(MapSpec::Use use, const Region& region, int32_t columns, int box_rows);

  const TableBasis& basis_;
  const size_t ranks_;
  std::vector<OfColumns> lists_;  // the first of each buffer, rank and use; then the others
  std::vector<std::vector<MapSpec>> sets_;
};

}  // namespace stretto::cuda
