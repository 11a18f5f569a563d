// Tests of one plan each, on GPUs.
#pragma once

#include <gtest/gtest.h>

#include <ostream>
#include <string>

#include "gpu_plans.h"

namespace stretto::runtime {

struct PlanCase {
  std::string op, schedule;
  int ranks;
};

inline void PrintTo(const PlanCase& c, std::ostream* out) { *out << c.op << " " << c.schedule; }

class PlanOnGpus : public testing::TestWithParam<PlanCase> {
 protected:
  void SetUp() override {
    const PlanCase& c = GetParam();
    if (const std::string why = why_not_here(c.op, c.schedule); !why.empty()) STRETTO_SKIP(why);
  }
};

}  // namespace stretto::runtime
