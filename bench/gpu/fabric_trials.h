// What fabric_bench measures: memory, pushes, signals and NCCL between the ranks of a fabric.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "fabric/fabric.h"
#include "fabric/run_state.h"
#include "fabric_kernels.h"
#include "gpu/device.h"

namespace stretto::bench {

using Json = nlohmann::json;

double now_ms();

// All of it is collective over the fabric's processes.
class FabricTrials {
 public:
  // Pushes are of so many bytes, by so many blocks.
  FabricTrials(fabric::Fabric& fabric, int blocks, size_t num_bytes);
  ~FabricTrials();

  // Milliseconds of a collective allocation, the median of several.
  double allocation_ms();
  // Every rank pushes to the next; words that arrive wrong, of all ranks.
  uint64_t wrong_words();
  // GB/s out of a GPU: the lowest of the pushing ranks, the median of several.
  double push_rate(bool all_at_once);
  // Microseconds of a round trip between ranks 0 and 1; bare: of relaxed stores without order.
  double round_trip_us(fabric::RunState& state, bool bare = false);
  // NCCL's all-reduce over a rank's own number gives every rank the sum; ranks where it does not.
  uint64_t wrong_sums();
  // Rank 1 stays silent; milliseconds until rank 0 has given up, and what was reported.
  Json silent_peer(fabric::RunState& state);

 private:
  struct Rank;

  template <typename Visit>
  void for_local(Visit visit) {
    for (int i = 0; i < fabric_.num_local(); ++i) {
      const int rank = fabric_.first_rank() + i;
      fabric_.device(rank).make_current();
      visit(rank);
    }
  }
  Rank& at(int rank) { return *ranks_[static_cast<size_t>(rank - fabric_.first_rank())]; }
  void restart(fabric::RunState& state);
  void launch(int rank, const cuda::Kernel& kernel, const PushParams& params);
  void push(int rank, const fabric::Region& from, const fabric::Region& to);
  // Microseconds on the ranks that play.
  double ping(fabric::RunState& state, device::uint32 rounds, const std::vector<int>& players,
              bool bare = false);
  void finish();
  uint64_t sum(uint64_t mine);

  fabric::Fabric& fabric_;
  const int blocks_;
  const size_t num_bytes_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace stretto::bench
