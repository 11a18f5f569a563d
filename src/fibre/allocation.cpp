#include "fibre/allocation.h"

#include <fmt/format.h>

namespace stretto::fibre {
namespace {

size_t granule_for(size_t element_bytes) {
  for (size_t granule : {size_t(8), size_t(4), size_t(2)}) {
    if (element_bytes % granule == 0) return granule;
  }
  return 1;
}

}  // namespace

Allocation::Allocation(std::string its_name, MemoryKind its_kind, int copies, size_t bytes,
                       size_t its_element_bytes)
    : name(std::move(its_name)),
      kind(its_kind),
      num_bytes(bytes),
      element_bytes(its_element_bytes),
      granule(granule_for(its_element_bytes)),
      copies_(static_cast<size_t>(copies)) {
  for (Copy& copy : copies_) {
    copy.bytes.resize(num_bytes, 0xcd);
    copy.cells.resize((num_bytes + granule - 1) / granule);
  }
}

void Allocation::refine(size_t finer) {
  if (finer >= granule) return;
  const size_t ratio = granule / finer;
  for (Copy& copy : copies_) {
    Cells cells;
    cells.reserve(copy.cells.size() * ratio);
    for (const Cell& cell : copy.cells) cells.insert(cells.end(), ratio, cell);
    copy.cells = std::move(cells);
  }
  granule = finer;
}

std::string Allocation::element_name(int rank, int64_t offset) const {
  const auto bytes = static_cast<int64_t>(element_bytes);
  std::string text = fmt::format("{}[{}]", name, offset / bytes);
  if (offset % bytes != 0) text += fmt::format("+{}", offset % bytes);
  return text + fmt::format("@{}", rank);
}

}  // namespace stretto::fibre
