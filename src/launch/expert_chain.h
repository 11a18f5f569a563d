// Kernels of experts that stand one behind the other in a stream: what the second need not wait
// for.
#pragma once

#include <optional>

#include "launch/expert_products.h"

namespace stretto::cuda {

// The kernel of experts that is the step ahead of this kernel's in its stream, if one is.
std::optional<uint32_t> experts_ahead(const RankProgram& program, uint32_t kernel);

// Whether tiles of `second` may begin as soon as those tiles of `first`, of the kernel right ahead
// of it, are stored that make their rows: it reads these rows in order, and nothing else that the
// kernel ahead writes; nor does it write what that one still reads. That one must await all ahead
// of it as a whole.
bool follows_by_tiles(const Plan& plan, const ExpertProduct& first, const GemmNeeds& of_first,
                      const ExpertProduct& second, const GemmNeeds& of_second);

}  // namespace stretto::cuda
