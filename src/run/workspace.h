// Memory between ranks that several plans use in turn.
//
// A plan's own runs keep out of each other's way there, as its proof says (docs/plan-format.md). Of
// another plan's bytes it knows nothing, so between runs of different plans there is a fence: no
// rank begins the next run before all ranks have ended the one before.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fabric/fabric.h"
#include "run/fence.h"

namespace stretto::runtime {

// What a workspace does where a plan needs more than it has: takes as much as the plan needs, or at
// least twice what its largest piece has, so that plans of all sizes in any order take no more than
// four times what the largest needs.
enum class WorkspaceGrowth : uint8_t { none, exact, doubles };

struct WorkspaceSize {
  size_t num_bytes = 0;  // of every rank, at first
  WorkspaceGrowth growth = WorkspaceGrowth::exact;
};

// How large the next piece is; throws UsageError where there is none.
size_t next_piece(const WorkspaceSize& size, size_t largest, size_t needed);

class Workspace {
 public:
  // Collective.
  Workspace(fabric::Fabric& fabric, const WorkspaceSize& size = {});

  // Collective. Memory for a plan; where there was less, another piece, which later plans use too.
  // Earlier plans keep theirs, which graphs and other ranks know. Throws UsageError where the size
  // is fixed and too small, SystemError.
  const fabric::Region& take(size_t num_bytes);
  // All that it holds of this rank's GPU.
  size_t num_bytes() const;

 private:
  fabric::Region& grow(size_t num_bytes);

  fabric::Fabric& fabric_;
  WorkspaceSize size_;
  std::vector<std::unique_ptr<fabric::Region>> regions_;  // each larger than those before
};

// Who ran last on a workspace, on one rank, as far as the host can know: whether a run needs a
// fence before it. All ranks come to the same answers, since they make and capture the same runs.
class WorkspaceTurns {
 public:
  // `user` tells plans apart, and is never 0; `capture`: of the stream that the run is enqueued on.
  bool needs_fence(uint64_t user, const std::optional<uint64_t>& capture) const;
  // The run is next on the workspace: its fence, where it needs one, is enqueued.
  void note(uint64_t user, const std::optional<uint64_t>& capture);
  // Ranks may have made different runs, since some failed: the next has a fence, on all of them.
  void forget();

 private:
  uint64_t last_ = 0;           // of runs that were not captured
  uint64_t captured_last_ = 0;  // in the capture `capture_`
  uint64_t capture_ = 0;
  bool is_captured_ = false;  // some run was: nobody knows when its graph is launched
};

}  // namespace stretto::runtime
