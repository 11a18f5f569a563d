// How many rows each expert has in a benchmark, and the least that their products take.
#pragma once

#include <cstdint>
#include <vector>

#include "stretto/machine.h"
#include "stretto/operator.h"
#include "stretto/reference.h"

namespace stretto::runtime {

// What a benchmark of an operator whose rows choose works on.
inline InputData bench_data(const Routing& routing) { return {Fill::random, 1, routing}; }

// Whether rows choose experts, by ids that the caller gives or that scores make.
bool chooses(const Operator& op);
// Whether the caller gives the ids, which a routing then says.
bool takes_routing(const Operator& op);

// By matrix of the segment's stack, over the rows of all ranks. Where scores choose, which nobody
// knows before a run, all have as many.
std::vector<int64_t> expert_rows(const Operator& op, const OperatorSegment& segment,
                                 const InputData& data);

// By rank and other rank: tokens of the one that have an expert on the other, by the caller's ids.
std::vector<std::vector<int64_t>> tokens_sent(const Operator& op, const OperatorSegment& segment,
                                              const InputData& data);

// Of the matrices that a rank has of a stack: the first, and how many.
struct OwnMatrices {
  int64_t first = 0, count = 0;
};
OwnMatrices own_matrices(const Operator& op, int weight, int rank);

// Of an operator whose rows choose experts: its products one after the other on the rank that they
// take longest on, each by its multiply-adds at the rate of a GPU, or by the weights that it reads
// at the rate of memory, whichever is longer. 0: nothing chooses.
double expert_floor_us(const Operator& op, const Machine& machine, const InputData& data);

// The least bytes that leave or reach the rank with most of them: as link_bytes(), but a token goes
// once to each rank that has an expert of its choice, and its sum comes back. Where scores choose,
// link_bytes() itself, which takes all experts to be as likely.
double routed_link_bytes(const Operator& op, const InputData& data);

}  // namespace stretto::runtime
