// Products that no library's kernel makes as their operator has them: those are our tiles'.
#pragma once

#include <string>

#include "stretto/operator.h"
#include "stretto/schedule.h"

namespace stretto {

// What the kernel of experts does not have of a routed product's shape; empty where it has it.
std::string why_no_kernel_of_experts(const Segment& product);
// What of the operator stands behind a product that only tiles make with it; empty where nothing
// does.
std::string why_only_tiles(const Operator& op, const OperatorSegment& product);

// Where a preset, or a text that does not say gemm=, has a library's kernel make such a product,
// tiles do. Then returns why, else nothing.
std::string take_tiles_where_only_these_serve(const Operator& op, const OperatorSegment& product,
                                              Schedule& schedule);

}  // namespace stretto
