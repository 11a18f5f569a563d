// Gathers that are worth measuring in phases of K.
#pragma once

#include <vector>

#include "stretto/tune.h"
#include "tune/predict.h"

namespace stretto {

// Columns of a phase: shorter rows are slow to push.
inline constexpr int64_t kShortestPhase = 1024;

// So many of them are worth a measurement, or a place among the candidates of `auto`.
inline constexpr size_t kMostPhased = 3;

// Of those that are predicted to be faster than the same with whole rows the best `most`, the
// fastest first.
std::vector<Candidate> phased_gathers(const Segment& op, const Machine& machine, size_t most,
                                      Predictions& predictions);

// Of a gate's product, whose own rows do not fill the SMs: tiles of 128x224 and 128x256 in phases,
// two numbers of them. What is measured of one weight's product is not in phases together with what
// follows it.
std::vector<Schedule> gated_phases(const Segment& op, const Machine& machine);

}  // namespace stretto
