// How diagnostics name the things of a plan.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "stretto/lower.h"
#include "stretto/plan.h"

namespace stretto::checker {

struct Counter;

// "rank 2 comm 1"
std::string lane_name(const Plan& plan, uint32_t lane);
// "reduce #37", "wait slots.5 >= 8 lag 1", "all_gather 2"
std::string what(const Plan& plan, InstrRef ref);
// "rank 2 comm 1 instruction 14 (reduce #37)"; instructions of a lane are counted from 0.
std::string at(const Plan& plan, InstrRef ref);
// "slots.5@3"
std::string name(const Plan& plan, const Counter& counter);
// "1 time", "3 times"
std::string counted(int64_t count, std::string_view noun);

}  // namespace stretto::checker
