#include "fibre/mutation.h"

#include "fibre/allocation.h"

namespace stretto::fibre {

Address folded(Address address) {
  if (mutation().folds.empty() || address.allocation == nullptr) return address;
  const auto bytes = static_cast<int64_t>(address.allocation->element_bytes);
  const auto size = static_cast<int64_t>(address.allocation->num_bytes) / bytes;
  const int64_t element = address.offset / bytes;
  for (const Fold& fold : mutation().folds) {
    if (fold.name != address.allocation->name || element < fold.begin || element >= fold.end) {
      continue;
    }
    const int64_t stride = fold.stride != 0 ? fold.stride : size / fold.slots;
    const int64_t slot = (element - fold.begin) / stride % fold.slots;
    if (slot == fold.slots - 1) address.offset -= slot * stride * bytes;
  }
  return address;
}

}  // namespace stretto::fibre
