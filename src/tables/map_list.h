// The tensor maps of a launch, each once.
#pragma once

#include <array>
#include <bit>
#include <vector>

#include "tables/plan_tables.h"
#include "tables/table_basis.h"

namespace stretto::cuda {

class MapList {
 public:
  explicit MapList(const TableBasis& basis);

  size_t count() const { return sets_[0].size(); }
  // The number of the map of the first `columns` columns of the region's buffer; of `box_rows` rows
  // at once when it stores, or loads sums.
  uint16_t number_of(MapSpec::Use use, const Region& region, int32_t columns, int box_rows = 0) {
    const uint16_t number = known(use, region, columns, box_rows);
    return number != kNone ? number : find_or_add(use, region, columns, box_rows);
  }
  // The first of those that store fewer rows at once (GemmDestination::part_maps), which follow one
  // another.
  uint16_t number_of_parts(const Region& region, int32_t columns) {
    const uint16_t number = known(MapSpec::Use::store, region, columns, device::kChunkRows / 2);
    return number != kNone ? number : add_parts(region, columns);
  }
  // Set after set.
  std::vector<MapSpec> all() const;

 private:
  static constexpr uint16_t kNone = UINT16_MAX;
  static constexpr size_t kUses = 4, kBoxes = 10;
  // Maps of one buffer for one use, by the binary logarithm of box_rows; 0: without a box.
  struct OfColumns {
    int32_t columns = -1;
    uint32_t next = 0;  // of other columns, in lists_; 0: there is none
    std::array<uint16_t, kBoxes> numbers;
    OfColumns() { numbers.fill(kNone); }
  };
  size_t list_of(MapSpec::Use use, const Region& region) const {
    return (region.buffer * ranks_ + region.rank) * kUses + static_cast<size_t>(use);
  }
  // Most lists have maps of one number of columns: that of the buffer.
  uint16_t known(MapSpec::Use use, const Region& region, int32_t columns, int box_rows) const {
    const OfColumns& first = lists_[list_of(use, region)];
    const int box = std::bit_width(static_cast<unsigned>(box_rows));
    return first.columns == columns ? first.numbers[static_cast<size_t>(box)] : kNone;
  }
  OfColumns& of_columns(size_t list, int32_t columns);
  uint16_t find_or_add(MapSpec::Use use, const Region& region, int32_t columns, int box_rows);
  uint16_t add_parts(const Region& region, int32_t columns);
  uint16_t add(MapSpec::Use use, const Region& region, int32_t columns, int box_rows);

  const TableBasis& basis_;
  const size_t ranks_;
  std::vector<OfColumns> lists_;  // the first of each buffer, rank and use; then the others
  std::vector<std::vector<MapSpec>> sets_;
};

}  // namespace stretto::cuda
