// Which gemms of a plan cuBLAS multiplies, and where to.
#pragma once

#include <string>

#include "stretto/plan.h"

namespace stretto::cuda {

// Whether cuBLAS multiplies anything: what a library makes of experts is a kernel of ours.
bool takes_cublas(const Plan& plan);
// Whether a library multiplies into the caller's result, rather than into what a collective adds
// up.
bool multiplies_into_result(const Plan& plan);
// Why of such a result as many rows as memory says there are cannot be copied (copy_rows.h); empty
// when they can, and of other plans.
std::string why_no_copy_of_rows(const Plan& plan);

}  // namespace stretto::cuda
