// How much of every GPU's memory plans take, between ranks and for each by itself, told before any
// of it is taken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "stretto/plan.h"
#include "stretto/tune.h"

namespace stretto::runtime {

struct BetweenRanks {
  size_t workspace = 0;  // which plans take turns on
  size_t slots = 0;      // of low-latency collectives, which each plan has for itself
};
BetweenRanks between_ranks(const Plan& plan);

// One plan of an operation.
struct PlannedMemory {
  int64_t rows = 0;
  std::string schedule;
  BetweenRanks bytes;
  size_t own = 0;  // what no other rank reaches, without the caller's tensors; each plan's
};
PlannedMemory memory_of(const Plan& plan);
// All plans of an operation that serves up to `most.m` rows with schedule auto, as it makes them:
// of every bucket, and a second one for rows that stand in GPU memory where that is another.
std::vector<PlannedMemory> memory_of_buckets(const Segment& most, const Machine& machine,
                                             const Tuning& tuning);
// The largest workspace, and the slots of all.
BetweenRanks of_operation(const std::vector<PlannedMemory>& plans);

}  // namespace stretto::runtime
