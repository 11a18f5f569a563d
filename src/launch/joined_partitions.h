// Partitions that the kernel of a dispatch makes (device/lang/kernels/send_and_route.h).
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "launch/rank_program.h"

namespace stretto::cuda {

// Where the step behind a dispatch of a rank's only stream is a kernel of movers that is nothing
// but a partition of what it brings, the dispatch's kernel makes it: ids are there before rows are,
// and one launch less stands between tokens and their products. So it is on all ranks or on none.
void join_partitions(const Plan& plan, std::vector<RankProgram>& programs);

// By the number of the collective whose kernel makes it: the rank's partition.
std::map<int32_t, InstrRef> joined_partitions(const Plan& plan, const RankProgram& program);
std::map<int32_t, InstrRef> joined_partitions(const Plan& plan, int rank);

}  // namespace stretto::cuda
