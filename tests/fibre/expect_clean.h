#pragma once

#include <gtest/gtest.h>

#include "core/sampling.h"
#include "stretto/fibre/explore.h"

namespace stretto::fibre {

// No schedule among `seeds` gives a finding.
inline void expect_clean(const Shape& shape, const Scenario& scenario, uint64_t seeds = 40) {
  const Exploration result = explore(
      shape, scenario, {.num_seeds = all_or_sample(seeds, (seeds + 3) / 4), .shrink = false});
  EXPECT_FALSE(result.failure) << result.failure->to_text();
}

// Some schedule among 200 gives a finding of this kind.
inline Failure expect_found(FindingKind kind, const Shape& shape, const Scenario& scenario) {
  const Exploration result = explore(shape, scenario);
  EXPECT_TRUE(result.failure) << "no finding in " << result.seeds_run << " seeds";
  if (!result.failure) return {};
  EXPECT_EQ(finding_name(result.failure->finding.kind), std::string(finding_name(kind)))
      << result.failure->to_text();
  return *result.failure;
}

// What scenario(true) has is needed: without it there is a race.
template <class MakeScenario>
void expect_needed(const Shape& shape, const MakeScenario& scenario) {
  expect_clean(shape, scenario(true));
  expect_found(FindingKind::kRace, shape, scenario(false));
}

}  // namespace stretto::fibre
