#include "tables/map_list.h"

#include <fmt/format.h>

#include "stretto/error.h"

namespace stretto::cuda {

MapList::MapList(const TableBasis& basis)
    : basis_(basis),
      ranks_(static_cast<size_t>(basis.plan.ranks())),
      lists_(basis.plan.buffers.size() * ranks_ * kUses),
      sets_(static_cast<size_t>(basis.sets)) {}

uint16_t MapList::find_or_add(MapSpec::Use use, const Region& region, int32_t columns,
                              int box_rows) {
  const int box = std::bit_width(static_cast<unsigned>(box_rows));
  uint16_t& number = of_columns(list_of(use, region), columns).numbers[static_cast<size_t>(box)];
  if (number == kNone) number = add(use, region, columns, box_rows);
  return number;
}

uint16_t MapList::add_parts(const Region& region, int32_t columns) {
  constexpr int kMost = device::kChunkRows / 2;
  const size_t num_maps = count();
  const uint16_t first = find_or_add(MapSpec::Use::store, region, columns, kMost);
  const bool is_new = count() > num_maps;  // then they all are
  for (int rows = kMost / 2; is_new && rows > 0; rows /= 2) {
    find_or_add(MapSpec::Use::store, region, columns, rows);
  }
  return first;
}

MapList::OfColumns& MapList::of_columns(size_t list, int32_t columns) {
  for (;;) {
    if (lists_[list].columns < 0) lists_[list].columns = columns;
    if (lists_[list].columns == columns) return lists_[list];
    if (lists_[list].next == 0) {
      lists_[list].next = static_cast<uint32_t>(lists_.size());
      lists_.emplace_back();
    }
    list = lists_[list].next;
  }
}

uint16_t MapList::add(MapSpec::Use use, const Region& region, int32_t columns, int box_rows) {
  const size_t number = count();
  if (number == kNone) {
    throw UsageError(
        fmt::format("a GEMM kernel of this plan reads and writes more than {} matrices; fewer "
                    "buffers or ranks would fit",
                    kNone));
  }
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
