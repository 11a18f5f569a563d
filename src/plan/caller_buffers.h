// Buffers that a caller fills and reads: whether they are what the plan's operator has there. The
// proof and whatever runs a plan say it in the same words.
#pragma once

#include <string>

#include "stretto/plan.h"
#include "stretto/reference.h"

namespace stretto {

std::string say_no_buffer(const std::string& name, BufferRole role);
// What is wrong with the buffer for the rank's slice of a tensor of that type; empty: nothing.
std::string fault_in_buffer(const Plan& plan, uint16_t buffer, int rank, const Slice& slice,
                            DType dtype);

}  // namespace stretto
