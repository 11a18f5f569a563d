// What the GPU target makes of plans, and places of their buffers that nothing stands behind.
#pragma once

#include <fmt/format.h>

#include <string>

#include "launch/buffer_places.h"
#include "launch/gemm_choice.h"
#include "launch/rank_program.h"
#include "launch/tile_sums.h"
#include "lower/plan_of.h"

namespace stretto::cuda {

// What the first kernel is made for.
inline device::GemmConfig config_of(const Plan& plan) {
  return config_for(plan, TileSums(plan).needs().front());
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

// The steps of a rank in the order in which they are enqueued, each with its stream.
inline std::string text(const Plan& plan, const RankProgram& program) {
  std::string out;
  constexpr const char* kNames[] = {"gemm",       "move",   "wait",  "notify", "copy",
                                    "collective", "record", "await", "route"};
  for (const auto& [stream, at] : program.order) {
    const Step& step = program.streams[stream].steps[at];
    const bool is_instr = step.kind == StepKind::wait || step.kind == StepKind::notify;
    out += fmt::format("{}:{}{} ", stream, kNames[static_cast<int>(step.kind)],
                       is_instr ? " " + describe(plan, step.instr(plan).signal)
                       : step.kind == StepKind::copy || step.kind == StepKind::collective ||
                               step.kind == StepKind::route
                           ? std::string()
                           : fmt::format(" {}", step.index));
  }
  if (!out.empty()) out.pop_back();
  return out;
}

}  // namespace stretto::cuda
