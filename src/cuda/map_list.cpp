#include "cuda/map_list.h"

#include <algorithm>
#include <bit>

#include "stretto/error.h"

namespace stretto::cuda {

MapList::MapList(const TableBasis& basis)
    : basis_(basis),
      numbers_(basis.plan.buffers.size() * static_cast<size_t>(basis.plan.ranks()) * kUses),
      sets_(static_cast<size_t>(basis.sets)) {}

uint16_t MapList::number_of(MapSpec::Use use, const Region& region, int32_t columns, int box_rows) {
  const size_t place = region.buffer * static_cast<size_t>(basis_.plan.ranks()) + region.rank;
  std::vector<OfColumns>& lists = numbers_[place * kUses + static_cast<size_t>(use)];
  // Most have one: of all columns.
  auto list = std::find_if(lists.begin(), lists.end(),
                           [&](const OfColumns& one) { return one.columns == columns; });
  if (list == lists.end()) {
    list = lists.insert(list, {columns, {}});
    list->numbers.fill(kNone);
  }
  uint16_t& number = list->numbers[std::bit_width(static_cast<unsigned>(box_rows))];
  if (number == kNone) number = add(use, region, columns, box_rows);
  return number;
}

uint16_t MapList::add(MapSpec::Use use, const Region& region, int32_t columns, int box_rows) {
  const size_t number = count();
  STRETTO_ASSERT(number < kNone, "a kernel has too many tensor maps");
  const Buffer& buffer = basis_.plan.buffers[region.buffer];
  for (int set = 0; set < basis_.sets; ++set) {
    Matrix matrix;
    matrix.address = basis_.address(region, set);
    matrix.rows = buffer.rows_on(region.rank);
    matrix.columns = columns;
    matrix.stride = buffer.cols;
    matrix.dtype = buffer.dtype;
    sets_[static_cast<size_t>(set)].push_back({use, matrix, box_rows});
  }
  return static_cast<uint16_t>(number);
}

std::vector<MapSpec> MapList::all() const {
  std::vector<MapSpec> maps;
  maps.reserve(count() * sets_.size());
  for (const std::vector<MapSpec>& set : sets_) maps.insert(maps.end(), set.begin(), set.end());
  return maps;
}

}  // namespace stretto::cuda
