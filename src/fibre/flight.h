// Stores on their way to other ranks, and transfers that nobody waits for yet.
#pragma once

#include <vector>

#include "fibre/allocation.h"
#include "fibre/clock.h"
#include "stretto/fibre/world.h"

namespace stretto::fibre {

// A store or an addition on its way to another rank.
struct Flight {
  uint32_t id = 0;
  Event event;  // of the store
  uint32_t issuer = 0;
  Allocation* allocation = nullptr;
  int rank = 0;
  int64_t offset = 0;
  std::vector<uint8_t> bytes;
  bool copies = false;  // takes its bytes from `from` when it arrives
  Address from;
  bool strong = false;
  bool adds = false;
  bool is_signal = false;
  bool is_first = false;  // nobody wrote there before
  Release release;
  Place place;
};

// A non-blocking put or get.
struct Transfer {
  uint32_t issuer = 0;
  Event issue;
  Event source;
  Event dest;
  bool is_get = false;
  bool completed = false;  // by a quiet; kept for others' until the kernel ends
};

}  // namespace stretto::fibre
