// Where the rows of a part lie in the caller's tensors, which have the rows of all parts, or a row
// for each of their choices.
#pragma once

#include <algorithm>
#include <vector>

#include "lower/lowering.h"

namespace stretto {

class PartRows {
 public:
  PartRows(const Lowering& state, const RowPart& part) : state_(state), part_(part) {}

  // Calls visit(region) for what a region of the part's rows is in its buffer: one, or one for
  // every owner whose stripe it has rows of.
  template <typename Visit>
  void for_each_run(const Region& counted, const Visit& visit) const {
    const int32_t each = state_.rows_of_all_parts(counted.buffer);
    if (each == 0 || counted.rows() == 0) return visit(counted);
    if (is_sharded(counted)) return visit(moved(counted, part_.first));
    for_each_stripe(counted, [&](const Region& of_owner) {
      const int64_t owner = of_owner.row0 / stripe(counted);
      const int64_t skipped = state_.rows.owners.block() - part_.stripes.block();
      visit(moved(of_owner, each * (part_.first + owner * skipped)));
    });
  }

  // Whether that is more than one.
  bool crosses(const Region& counted) const {
    return state_.rows_of_all_parts(counted.buffer) > 0 && !is_sharded(counted) &&
           counted.rows() > 0 &&
           counted.row0 / stripe(counted) != (counted.row1 - 1) / stripe(counted);
  }

  // Whether the region's rows are of the operator's: those of a caller's weight are not.
  bool has_rows(const Region& region) const {
    const bool is_given = state_.plan.buffers[region.buffer].role == BufferRole::input;
    return !is_given || state_.rows_of_all_parts(region.buffer) > 0;
  }

  // Cuts a region where the stripes of its owners meet.
  template <typename Visit>
  void for_each_stripe(Region counted, const Visit& visit) const {
    const int32_t block = stripe(counted);
    for (const int32_t end = counted.row1; counted.row0 < end; counted.row0 = counted.row1) {
      counted.row1 = std::min(end, (counted.row0 / block + 1) * block);
      visit(counted);
    }
  }

 private:
  // Rows of an owner's stripe.
  int32_t stripe(const Region& region) const {
    const int32_t each = std::max(1, state_.rows_of_all_parts(region.buffer));
    return each * static_cast<int32_t>(part_.stripes.block());
  }
  bool is_sharded(const Region& region) const {
    return state_.plan.buffers[region.buffer].sharded_rows > 0;
  }
  static Region moved(Region region, int64_t down) {
    region.row0 += static_cast<int32_t>(down);
    region.row1 += static_cast<int32_t>(down);
    return region;
  }

  const Lowering& state_;
  const RowPart& part_;
};

}  // namespace stretto
