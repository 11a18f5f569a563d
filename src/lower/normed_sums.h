// An all-reduce whose sums go to a residual that is normed: one collective of the device language
// makes all three, so the rows cross memory once.
#pragma once

#include "lower/lowering.h"

namespace stretto {

// Of the product that is segment `index`: where its schedule has low-latency collectives, and what
// follows is `add` of its result and a residual, and `norm` of that, of bf16 and of all rows.
std::optional<NormedSums> normed_sums(const Operator& op, size_t index, const Schedule& schedule);

// Whether the tensor is an output, or another stage than `user` takes it.
bool is_used_elsewhere(const Operator& op, int tensor, const Stage& user);

}  // namespace stretto
