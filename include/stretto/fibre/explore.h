// Runs a scenario under many seeds and makes a failing one small.
#pragma once

#include <functional>
#include <optional>

#include "stretto/fibre/world.h"

namespace stretto::fibre {

// Allocates in the world, launches, runs, and checks results with World::expect. It is called once
// a seed with a fresh world, must do the same thing each time, and must fit every shape that it
// does not refuse with UsageError. One that runs nothing is refused.
using Scenario = std::function<void(World&)>;

struct ExploreOptions {
  uint64_t first_seed = 0;
  uint64_t num_seeds = 200;
  bool shrink = true;
  int shrink_runs = 400;  // at most
};

struct Failure {
  uint64_t seed = 0;                // the first that failed, at the shape that was asked for
  Shape shape;                      // the smallest that was seen to fail in the same way
  Finding finding;                  // at that shape
  std::vector<Decision> decisions;  // replays it there

  std::string to_text() const;
};

struct Exploration {
  uint64_t seeds_run = 0;
  std::optional<Failure> failure;
};

Exploration explore(const Shape& shape, const Scenario& scenario,
                    const ExploreOptions& options = {});

}  // namespace stretto::fibre
