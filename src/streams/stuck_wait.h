// Waits that did not end, and which of them is the cause of the others.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launch/rank_program.h"
#include "streams/run_fault.h"
#include "stretto/device/stream_sync.h"
#include "stretto/plan.h"

namespace stretto::runtime {

struct StuckWait {
  int rank = 0;
  uint32_t lane = 0, position = 0;  // the wait's instruction in the plan
  int64_t expected = 0, seen = 0;   // of the run, as the plan's text counts
  bool known = false;               // false: only the rank is
  bool let_go = false;              // it stood still until another wait's deadline passed

  bool operator==(const StuckWait&) const = default;
};

// Where the waits of one kernel of a rank come from.
struct KernelPlace {
  const std::vector<cuda::BlockPart>* parts = nullptr;  // of a gemm or mover kernel, by block
  std::vector<cuda::Step> steps = {};                   // of a wait in a stream
};

// A wait of a stream, and what it left when it was let go.
struct LeftWait {
  cuda::Step step;
  device::LetGo left;
};

// Where a rank stood when its waits were let go: of the first run that has any, the first of each
// lane. What came behind those was let go on the way.
std::vector<StuckWait> stood_still(const Plan& plan, int rank, std::span<const LeftWait> waits);

// Those of `let_go` that nobody has told of yet.
void add_let_go(std::vector<StuckWait>& stuck, const std::vector<StuckWait>& let_go);
// Waits that were let go say what others follow from; where no wait has expired the host let them
// go, for a reason of its own.
void drop_let_go_alone(std::vector<StuckWait>& stuck);

// The wait that a kernel of `rank`, which is at `place`, gave up; `signal` is the one it reported.
StuckWait locate(const Plan& plan, int rank, const KernelPlace& place, const SignalRef& signal,
                 const device::WaitError& error);

// The wait for `signal` that holds up a task of `tile` among instructions [begin, end) of a lane;
// the last wait for it when none does.
std::optional<uint32_t> find_wait(const Lane& lane, uint32_t begin, uint32_t end,
                                  const SignalRef& signal, int32_t tile);

struct WaitPlace {
  uint32_t lane = 0, position = 0;
};
// The wait for `signal` of a block of a kernel, from what it reported as its tile; the first of its
// instructions when there is none.
WaitPlace find_wait(const Plan& plan, const cuda::BlockPart& part, const SignalRef& signal,
                    uint32_t tile);

// The one whose notifies are not behind another stuck wait, and rather one whose own deadline has
// passed; the first when there is none. `stuck` is not empty.
const StuckWait& root_of(const Plan& plan, const std::vector<StuckWait>& stuck);

// "rank 2 compute 17 waited 2000 ms before tile 5 for slots.12: expected 3, seen 2"
std::string describe(const Plan& plan, const StuckWait& stuck, uint64_t timeout_ns);

// What is said of waits that did not end, of which there is one at least.
RunFault fault_of(const Plan& plan, const std::vector<StuckWait>& stuck, uint64_t timeout_ns);

}  // namespace stretto::runtime
