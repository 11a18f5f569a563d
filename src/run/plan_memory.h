// The memory of a plan's buffers on the ranks of this process, and where they lie.
#pragma once

#include <vector>

#include "fabric/fabric.h"
#include "launch/buffer_places.h"
#include "launch/tile_sums.h"
#include "run/workspace.h"

namespace stretto::runtime {

// Of every rank, for what its plan has between ranks: what a workspace for it needs.
size_t bytes_between_ranks(const Plan& plan);
// The same for what each rank has to itself, without the caller's tensors.
size_t bytes_of_own(const Plan& plan);

class PlanMemory {
 public:
  // Collective. Those of `sums` that stay in registers have no bytes. `tensors_at_calls`: calls
  // name the caller's tensors, and stand-ins take their place (launch/call_places.h), but for those
  // that other ranks reach, or collectives of rows of unequal length; with `shared_results` for
  // outputs that others write, too, on every rank (SharedResults). With a workspace,
  // which must outlive this, shared buffers lie there; others' runs may be under way on it. Throws
  // UsageError, SystemError when memory runs out.
  PlanMemory(const Plan& plan, const cuda::TileSums& sums, fabric::Fabric& fabric,
             bool tensors_at_calls = false, Workspace* workspace = nullptr,
             bool shared_results = false);
  ~PlanMemory();
  PlanMemory(const PlanMemory&) = delete;
  PlanMemory& operator=(const PlanMemory&) = delete;

  // As `viewer`, a rank of this process, sees all ranks. A buffer that only its own rank uses has
  // no place on the others.
  const cuda::BufferPlaces& places(int viewer) const {
    return places_[static_cast<size_t>(viewer - fabric_.first_rank())];
  }
  size_t num_bytes(uint16_t buffer) const { return bytes_[buffer]; }
  // By buffer: other ranks reach it.
  const std::vector<bool>& shared() const { return shared_; }
  // Bytes of every rank that its shared buffers take.
  size_t shared_bytes() const { return shared_bytes_; }
  // Where they lie, with a workspace.
  const WorkspacePlace& in_workspace() const { return in_workspace_; }
  // Every byte of every buffer of a rank of this process to 0xff: not a number in every type. Those
  // of the caller's are left alone, and a workspace. The rank's GPU is current.
  void poison(int rank, const cuda::Stream& stream) const;

 private:
  void place_stand_ins(bool shared_results);
  void place_shared(Workspace* workspace);
  void place_local();

  const Plan& plan_;
  fabric::Fabric& fabric_;
  std::vector<size_t> bytes_;    // of one instance, by buffer
  std::vector<bool> shared_;     // by buffer: other ranks reach it
  std::vector<bool> stands_in_;  // by buffer
  size_t shared_bytes_ = 0;
  fabric::Region region_;  // all shared buffers, without a workspace
  bool has_workspace_ = false;
  WorkspacePlace in_workspace_;
  std::vector<std::vector<cuda::DeviceMemory>> local_;  // by local rank
  std::vector<cuda::BufferPlaces> places_;              // by local rank
};

}  // namespace stretto::runtime
