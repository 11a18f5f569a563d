// The tensor maps of a launch, each once.
#pragma once

#include <array>
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
  uint16_t number_of(MapSpec::Use use, const Region& region, int32_t columns, int box_rows = 0);
  // Set after set.
  std::vector<MapSpec> all() const;

 private:
  static constexpr uint16_t kNone = UINT16_MAX;
  static constexpr size_t kUses = 4, kBoxes = 9;
  // Maps of one buffer for one use, by the binary logarithm of box_rows; 0: without a box.
  struct OfColumns {
    int32_t columns = 0;
    std::array<uint16_t, kBoxes> numbers;
  };
  uint16_t add(MapSpec::Use use, const Region& region, int32_t columns, int box_rows);

  const TableBasis& basis_;
  std::vector<std::vector<OfColumns>> numbers_;  // by buffer, rank and use
  std::vector<std::vector<MapSpec>> sets_;
};

}  // namespace stretto::cuda
