// Makes a plan's collectives through NCCL.
#pragma once

#include <vector>

#include "fabric/communicators.h"
#include "tables/collectives.h"

namespace stretto::runtime {

void make_calls(const fabric::Communicators& communicators, int rank, const cuda::Stream& stream,
                const std::vector<cuda::NcclCall>& calls);

}  // namespace stretto::runtime
