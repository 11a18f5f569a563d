#include "measure/contest_memory.h"

#include <algorithm>
#include <limits>

#include "gpu/cublas_library.h"
#include "launch/cublas_gemms.h"
#include "run/between_ranks.h"
#include "run/plan_memory.h"
#include "run/rank_threads.h"

namespace stretto::runtime {

size_t bytes_of_contestant(const Plan& plan) {
  const size_t products = cuda::takes_cublas(plan) ? cuda::kCublasWorkspaceBytes : 0;
  return between_ranks(plan).slots + bytes_of_own(plan) + products;
}

size_t free_for_each_rank(fabric::Fabric& fabric) {
  size_t least = std::numeric_limits<size_t>::max();
  fabric.group().together("looking at free GPU memory", [&] {
    for (int i = 0; i < fabric.num_local(); ++i) {
      const cuda::Device& device = fabric.device(fabric.first_rank() + i);
      device.make_current();
      least = std::min(least, device.free_bytes() / static_cast<size_t>(device.ranks()));
    }
  });
  return static_cast<size_t>(
      -largest(fabric, "free GPU memory", {-static_cast<double>(least)}).front());
}

}  // namespace stretto::runtime
