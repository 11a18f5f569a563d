// Which tokens a benchmark sends to which experts, and where their rows must then be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "stretto/device/lang/kernels/experts.h"

namespace stretto::bench {

// Uniform at random, the same in every run. An entry is a token's choice of one of its experts.
struct ExpertRouting {
  ExpertRouting(const device::ExpertShape& shape, int ranks);

  int owner_of(size_t rank, size_t entry) const { return ids[rank][entry] / experts_of_a_rank; }

  int experts_of_a_rank;
  std::vector<std::vector<int32_t>> ids;    // [rank][entry]: the expert
  std::vector<std::vector<float>> weights;  // [rank][entry]
  std::vector<std::vector<uint32_t>> rows;  // [rank][entry]: at its owner
  // Tokens go once to each rank that owns one of their experts: those of the rank that sends most
  // to others.
  size_t most_remote_copies = 0;

 private:
  void route(const device::ExpertShape& shape, uint64_t rank);
  void place_rows(const device::ExpertShape& shape);
};

}  // namespace stretto::bench
