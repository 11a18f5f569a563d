// Lists of blocks as kernels take them: one list, and where each block's begins.
#pragma once

#include <cstdint>
#include <vector>

#include "stretto/error.h"

namespace stretto::cuda {

// Appends the lists to `flat`. By list: where it begins there; then the end.
template <typename T>
std::vector<uint32_t> flatten(const std::vector<std::vector<T>>& lists, std::vector<T>& flat) {
  size_t size = flat.size();
  for (const std::vector<T>& list : lists) size += list.size();
  STRETTO_ASSERT(size <= UINT32_MAX, "a table is too long for its kernel");
  flat.reserve(size);
  std::vector<uint32_t> first;
  first.reserve(lists.size() + 1);
  for (const std::vector<T>& list : lists) {
    first.push_back(static_cast<uint32_t>(flat.size()));
    flat.insert(flat.end(), list.begin(), list.end());
  }
  first.push_back(static_cast<uint32_t>(flat.size()));
  return first;
}

}  // namespace stretto::cuda
