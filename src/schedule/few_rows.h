// What gemm=few-rows can serve.
#pragma once

#include <string>

#include "stretto/schedule.h"

namespace stretto {

// Why the kernel of few rows cannot multiply the product and send what it has multiplied to
// low-latency collectives; empty when it can. Says what would be right.
std::string why_no_few_rows(const Segment& op);

}  // namespace stretto
