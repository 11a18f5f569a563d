// What the collectives of the device language need of every GPU's memory, before any is taken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "plan/kernel_calls.h"
#include "tables/low_latency_shape.h"

namespace stretto::runtime {

// Slots and greetings of each collective of a plan, which none shares with another.
struct LowLatencyHeap {
  // Greetings of three calls, and of each piece of the heap what its alignment may take.
  static constexpr size_t kGreetings = 3, kAlignment = 256;

  struct Collective {
    int32_t id = 0;
    uint64_t most = 0;         // vectors of a rank's part
    uint64_t row_vectors = 0;  // of a row of what is moved
    int32_t columns = 0;       // experts of the rank, and bad ids, of a partition made beside
    size_t signals = 0;        // words, of a kernel of the graph's
    std::string kernel = {};   // its name
    KernelCallSizes sizes;     // and what it is told of
    cuda::LowLatencyShape shape;
  };
  std::vector<Collective> collectives;  // those that have anything to move
  size_t num_bytes = 0;
  int most_blocks = 1;  // of a grid
};

// Of the collectives that kernels of the language make, on a rank that has so many SMs.
LowLatencyHeap low_latency_heap(const Plan& plan, int rank, int sms);

}  // namespace stretto::runtime
