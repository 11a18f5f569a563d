// What is taken away from a plan's synchronisation is missed.
#pragma once

#include <gtest/gtest.h>

#include "stretto/check.h"
#include "stretto/plan.h"

namespace stretto {

// The plan is clean, and without any one of its waits and notifies, more than `few`, it is not.
inline void expect_every_sync_is_needed(const Plan& plan, int few = 10) {
  ASSERT_TRUE(check(plan).clean());
  int mutants = 0;
  for (size_t lane = 0; lane < plan.lanes.size(); ++lane) {
    for (size_t pos = 0; pos < plan.lanes[lane].instrs.size(); ++pos) {
      if (!plan.lanes[lane].instrs[pos].is_sync()) continue;
      Plan mutant = plan;
      auto& instrs = mutant.lanes[lane].instrs;
      instrs.erase(instrs.begin() + static_cast<std::ptrdiff_t>(pos));
      EXPECT_FALSE(check(mutant).clean()) << to_string(plan.op) << " " << plan.schedule << ": "
                                          << describe(plan.lanes[lane]) << " without " << pos;
      ++mutants;
    }
  }
  EXPECT_GT(mutants, few);
}

}  // namespace stretto
