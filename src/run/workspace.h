// Memory between ranks that several plans use in turn.
//
// A plan's own runs keep out of each other's way there, as its proof says (docs/plan-format.md). Of
// another plan's bytes it knows nothing, so between runs of different plans there is a fence: no
// rank begins the next run before all ranks have ended the one before. It is spared where the plans
// lie on different bytes and a run of the one before is a fence itself (check/meets.h).
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fabric/fabric.h"
#include "run/fence.h"

namespace stretto::runtime {

class PlanRunner;

// What a workspace does where a plan needs more than it has: takes as much as the plan needs; or
// room for two such plans side by side, and at least twice what its largest piece has, so that
// plans of all sizes in any order take no more than eight times what the largest needs.
enum class WorkspaceGrowth : uint8_t { none, exact, doubles };

struct WorkspaceSize {
  size_t num_bytes = 0;  // of every rank, at first
  WorkspaceGrowth growth = WorkspaceGrowth::exact;
};

// Where a plan that needs so many bytes goes: into the piece before, at which of its bytes, or into
// a new one of so many.
struct PlaceInWorkspace {
  size_t at = 0;
  size_t new_piece = 0;  // bytes; 0: the largest there is
};

// Some bytes of a piece.
struct WorkspaceBytes {
  size_t begin = 0, end = 0;
  bool overlaps(const WorkspaceBytes& other) const {
    return begin < other.end && other.begin < end;
  }
};

// The bytes that plans get.
class WorkspaceRooms {
 public:
  explicit WorkspaceRooms(const WorkspaceSize& size) : size_(size), largest_(size.num_bytes) {}

  // Beside all of `recent`, what plans that ran last have of the largest piece, where there is
  // room; else beside as many as can be, the first before the others. Those of no run yet come one
  // behind the other and then from the front again. A plan that fits what the caller gave takes no
  // more. Throws UsageError where there is no room, and no more is taken.
  PlaceInWorkspace place(size_t num_bytes, std::span<const WorkspaceBytes> recent = {});
  // The same of a plan that fits into the largest piece, in it.
  PlaceInWorkspace place_inside(size_t num_bytes, std::span<const WorkspaceBytes> recent = {});
  bool fits(size_t num_bytes) const { return num_bytes <= largest_; }

 private:
  size_t beside(std::span<const WorkspaceBytes> recent, size_t num_bytes) const;

  WorkspaceSize size_;
  size_t largest_;  // bytes of the last piece
  size_t next_ = 0;
};

// A plan's bytes of a workspace.
struct WorkspacePlace {
  const fabric::Region* region = nullptr;
  WorkspaceBytes bytes;
  bool overlaps(const WorkspacePlace& other) const {
    return region == other.region && bytes.overlaps(other.bytes);
  }
};

class Workspace {
 public:
  // Collective.
  Workspace(fabric::Fabric& fabric, const WorkspaceSize& size = {});

  // Collective. Memory for a plan; where there was less, in another piece, which later plans use
  // too. Earlier plans keep theirs, which graphs and other ranks know. Throws UsageError where the
  // size is fixed and too small, SystemError where there is no memory that the plan cannot do
  // without.
  WorkspacePlace take(size_t num_bytes);
  // What the plans that ran last have, of all ranks alike, the last one first: the next that is
  // made is likely to run behind them.
  void expect_behind(std::vector<WorkspacePlace> recent) { recent_ = std::move(recent); }
  // All that it holds of this rank's GPU.
  size_t num_bytes() const;

  // Of plans whose runs may stand for fences here, one whose run has failed, as far as a wait of
  // this process's ranks has seen it, so that those behind it may have begun too soon; null: none
  // has.
  const PlanRunner* failed_fence() const;

 private:
  friend class StandsForFences;
  void grow(size_t num_bytes);

  fabric::Fabric& fabric_;
  WorkspaceRooms rooms_;
  std::vector<WorkspacePlace> recent_;
  std::vector<const PlanRunner*> fences_;
  std::vector<std::unique_ptr<fabric::Region>> regions_;  // each larger than those before
};

// One of those plans, as long as this lives.
class StandsForFences {
 public:
  StandsForFences(Workspace& workspace, const PlanRunner& runner)
      : workspace_(workspace), runner_(runner) {
    workspace_.fences_.push_back(&runner_);
  }
  ~StandsForFences() { std::erase(workspace_.fences_, &runner_); }
  StandsForFences(const StandsForFences&) = delete;
  StandsForFences& operator=(const StandsForFences&) = delete;

 private:
  Workspace& workspace_;
  const PlanRunner& runner_;
};

// What a run of a plan does to a workspace.
struct WorkspaceUse {
  uint64_t user = 0;  // tells plans apart, and is never 0
  WorkspacePlace place;
  bool is_fence = false;  // meets_all_ranks()
};

// Who ran last on a workspace, on one rank, as far as the host can know: whether a run needs a
// fence before it. All ranks come to the same answers, since they make and capture the same runs.
class WorkspaceTurns {
 public:
  // `capture`: of the stream that the run is enqueued on.
  bool needs_fence(const WorkspaceUse& next, const std::optional<uint64_t>& capture) const;
  // The run is next on the workspace: its fence, where it needs one, is enqueued.
  void note(const WorkspaceUse& next, const std::optional<uint64_t>& capture);
  // Ranks may have made different runs, since some failed: the next has a fence, on all of them,
  // and so has the next of a capture.
  void forget();
  // Where the plans lie whose runs were enqueued last, captured or not, each once and the last one
  // first; nothing where ranks may have made different runs.
  std::vector<WorkspacePlace> recent() const;

 private:
  void leave_capture();

  bool knows_nothing_ = false;
  std::optional<WorkspaceUse> last_;           // of runs that were not captured
  uint64_t capture_ = 0;                       // the last one
  std::optional<WorkspaceUse> captured_last_;  // in it, so far
  // Of those before it. Any of their graphs may have been launched since, or none.
  std::vector<WorkspaceUse> last_of_captures_;
  std::deque<WorkspaceUse> recent_;
};

}  // namespace stretto::runtime
