// Hand-written plans, small enough to check by eye, and ways to break them.
#pragma once

#include <string>
#include <string_view>

#include "stretto/plan.h"

namespace stretto::emu {

// GEMM+ReduceScatter on 2 ranks: computing blocks store partial sums into the owner's slots, a
// communication block adds them. Slots alternate between two copies.
std::string reduce_scatter_by_slots();
// The same with one copy of the slots, whose reader acknowledges.
std::string reduce_scatter_with_ack();
// AllGather+GEMM on 2 ranks: copy engines push the own rows, then tell the peer.
std::string all_gather_by_copies();
// GEMM+AllReduce on 2 ranks in two shots: owners add their rows and store them to both ranks.
std::string all_reduce_two_shot();
// NCCL moves the data: a whole GEMM, a kernel boundary, then the collective.
std::string reduce_scatter_by_nccl();
std::string all_gather_by_nccl();
std::string all_reduce_by_nccl();
// Rank 0 hears of its own first collective by rank 1's notify behind the second.
std::string all_gather_known_by_another();

// The text with its `nth` occurrence (from 0) of `what` replaced; a whole line when it ends in \n.
std::string replaced(std::string text, std::string_view what, std::string_view with, int nth = 0);

Plan plan_of(std::string_view text);

}  // namespace stretto::emu
