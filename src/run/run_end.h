// How the runs of a process ended, as the processes of a job tell each other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stretto::runtime {

// Where a rank stood when runs were let go, or at the end of its runs.
struct RankStand {
  uint64_t begun = 0;  // grows with the runs that it has begun, alike on all ranks
  uint8_t ended = 1;   // it has come to the end of its runs
  uint64_t given = 0;  // tells what places of shared results its calls gave, alike on all ranks
};

struct RunEnd {
  std::string failure;            // why its runs have not ended; empty when they have
  bool released_nccl = false;     // it gave up collectives of NCCL, so they could end
  bool nccl_is_gone = false;      // by this runner or another
  std::vector<RankStand> stands;  // of its ranks
};

std::string to_bytes(const RunEnd& end);
// Nothing when it is not of a process of so many ranks.
std::optional<RunEnd> run_end_from(std::string_view bytes, size_t ranks);

// "rank 2", "ranks 0, 2".
std::string ranks_of(const std::vector<int>& ranks);

// "rank 2 gave results other places of the shared memory than rank 0", of all ranks; empty: none.
std::string describe_given(const std::vector<RankStand>& stands);

// Who did not come to a collective, by where all ranks stood: those that have ended while others
// wait; else those that have begun fewer runs. Empty when nothing tells them apart.
std::vector<int> absent_ranks(const std::vector<RankStand>& stands);

// "ranks 0, 2 waited 2000 ms in a collective of NCCL, to which rank 1 did not come"
std::string describe_absent(const std::vector<RankStand>& stands, uint64_t timeout_ns);

}  // namespace stretto::runtime
