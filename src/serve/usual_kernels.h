// The kernels that are compiled ahead of time where nobody says for what.
#pragma once

#include <string>
#include <vector>

#include "stretto/tune.h"
#include "tables/kernel_set.h"

namespace stretto::runtime {

// Those of what `auto` takes for every operator of the tuning, with fixed rows and served, whoever
// says how many rows there are; of the presets on these operators, on as many ranks and on a whole
// node; and of what making an operation measures on sizes that nobody tuned; in bf16 and in fp16.
// `arch` is one of cuda::known_archs(). Other kernels are compiled when a plan first asks for them.
std::vector<cuda::KernelEntry> usual_kernels(const Tuning& tuning, const std::string& arch);

// Adds those that `kernels` does not have yet.
void add_kernels(std::vector<cuda::KernelEntry> more, std::vector<cuda::KernelEntry>& kernels);

}  // namespace stretto::runtime
