// Plans, and places of their buffers that nothing stands behind.
#pragma once

#include <string>

#include "cuda/buffer_places.h"
#include "cuda/gemm_choice.h"
#include "cuda/tile_sums.h"
#include "stretto/lower.h"

namespace stretto::cuda {

inline Plan plan_of(const std::string& op_text, const std::string& schedule) {
  const Operator op = parse_operator(op_text);
  const Machine machine = default_machine(op.ranks);
  return lower(op, parse_schedule(schedule, op, machine), machine);
}

inline device::GemmConfig config_of(const Plan& plan) {
  const TileSums sums(plan);
  return config_for(plan, sums, needs_of(plan, sums));
}

// Addresses that tell rank, buffer and copy: nothing is behind them.
inline BufferPlaces places_of(const Plan& plan) {
  BufferPlaces places(static_cast<size_t>(plan.ranks()));
  for (size_t rank = 0; rank < places.size(); ++rank) {
    for (size_t b = 0; b < plan.buffers.size(); ++b) {
      places[rank].emplace_back();
      for (int copy = 0; copy < plan.buffers[b].copies; ++copy) {
        places[rank].back().push_back((((rank + 1) << 8 | b) << 8 | static_cast<size_t>(copy))
                                      << 40);
      }
    }
  }
  return places;
}

}  // namespace stretto::cuda
