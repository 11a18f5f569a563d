#include "launch/buffer_places.h"

#include <numeric>

namespace stretto::cuda {

int num_sets(const Plan& plan) {
  int sets = 1;
  for (const Buffer& buffer : plan.buffers) {
    sets = std::lcm(sets, static_cast<int>(buffer.copies));
    if (sets > kMostSets) return kMostSets + 1;
  }
  return sets;
}

}  // namespace stretto::cuda
