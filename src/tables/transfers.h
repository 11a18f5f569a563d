// A plan's copies as transfers of the copy engines.
#pragma once

#include <vector>

#include "launch/buffer_places.h"

namespace stretto::cuda {

struct Transfer {
  DevicePtr from = 0, to = 0;
  uint64_t from_pitch = 0, to_pitch = 0;  // bytes from one row to the next
  uint64_t row_bytes = 0, rows = 0;
  bool operator==(const Transfer&) const = default;
};

// Those of one copy, in a run on instance set `set` (num_sets()).
std::vector<Transfer> transfers_of(const Plan& plan, const Instr& copy, const BufferPlaces& places,
                                   int set);

void enqueue_transfer(const Stream& stream, const Transfer& transfer);

}  // namespace stretto::cuda
