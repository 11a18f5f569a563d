// What compute and comm lanes of a plan ask for that the kernels' tables or the GEMM kernel lack.
#pragma once

#include "tables/limit_list.h"

namespace stretto::cuda {

void add_lane_limits(const Plan& plan, const TileSums& sums, bool serves, LimitList& limits);

}  // namespace stretto::cuda
