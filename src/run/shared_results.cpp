#include "run/shared_results.h"

namespace stretto::runtime {

const fabric::Region& SharedResults::add(size_t num_bytes) {
  pieces_.push_back(
      std::make_unique<fabric::Region>(fabric_.allocate(num_bytes, "a caller's shared memory")));
  return *pieces_.back();
}

std::optional<SharedResults::Place> SharedResults::find(int rank, cuda::DevicePtr address,
                                                        uint64_t num_bytes) const {
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const cuda::DevicePtr begin = pieces_[i]->local(rank);
    const uint64_t offset = address - begin;
    if (address < begin || offset > pieces_[i]->num_bytes()) continue;
    if (num_bytes <= pieces_[i]->num_bytes() - offset) return Place{i, offset};
  }
  return std::nullopt;
}

}  // namespace stretto::runtime
