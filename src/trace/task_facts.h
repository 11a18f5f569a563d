// What a viewer wants to know of an instruction that took time: which part of the result it makes,
// how many bytes, from whom and to whom.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stretto/plan.h"

namespace stretto {

struct TaskFacts {
  Region result;                   // its first write; empty where it writes nothing
  int32_t depth = 0;               // of what multiplies: the length of its sums
  int64_t bytes = 0;               // written, to all places together
  int64_t bytes_between = 0;       // read from or written to other ranks
  std::vector<uint16_t> to, from;  // other ranks, ascending
};

TaskFacts facts_of(const Plan& plan, const Lane& lane, const Instr& instr);

// "gemm 256", "wait slots.5 >= 2", "all_gather 0": what slices are called.
std::string title_of(const Plan& plan, const Instr& instr);

// "1, 2, 5"
std::string list_of(const std::vector<uint16_t>& ranks);

}  // namespace stretto
