// A caller's memory that all ranks reach: results that other ranks write are written there by
// them, without a copy.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "fabric/fabric.h"
#include "stretto/plan.h"

namespace stretto::runtime {

// By buffer: outputs that other ranks write, and only their own ranks read, and that have as many
// columns on each: a rank that writes to others knows how far apart its own rows lie.
std::vector<bool> written_by_others(const Plan& plan);

class SharedResults {
 public:
  explicit SharedResults(fabric::Fabric& fabric) : fabric_(fabric) {}

  // Collective. Another piece of every rank's memory, until this ends.
  const fabric::Region& add(size_t num_bytes);

  // The piece that has all these bytes of a rank's, at which offset; nothing where none has.
  struct Place {
    size_t piece = 0;
    uint64_t offset = 0;
  };
  std::optional<Place> find(int rank, cuda::DevicePtr address, uint64_t num_bytes) const;
  // The same bytes of `rank`'s, as `viewer` sees them.
  cuda::DevicePtr address(const Place& place, int rank, int viewer) const {
    return pieces_[place.piece]->address(rank, viewer) + place.offset;
  }

 private:
  fabric::Fabric& fabric_;
  std::vector<std::unique_ptr<fabric::Region>> pieces_;
};

}  // namespace stretto::runtime
