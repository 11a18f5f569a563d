// How far kernels come with what all ranks have enqueued: what their notifies have told, and which
// have ended.
#pragma once

#include <utility>
#include <vector>

#include "launch/rank_program.h"

namespace stretto::cuda {

// A kernel that is enqueued.
struct KernelProgress {
  struct Block {
    const BlockPart* part;
    uint32_t at;
    size_t waited;  // at its end
  };
  std::vector<Block> running;  // blocks that have not ended
  bool has_ended = false;
};

// All ranks' signals, and the kernels that add to them. A kernel's progress and blocks must stay
// where they are until it has ended.
class EnqueuedKernels {
 public:
  EnqueuedKernels(const Plan& plan, size_t num_ranks);

  size_t num_counters() const { return told_.size(); }
  // Of the signal that an instruction of `rank` awaits, or tells there.
  size_t counter(size_t rank, const Instr& instr) const;
  bool has_come(size_t rank, const Instr& wait) const {
    return wait.lag > 0 || told_[counter(rank, wait)] >= wait.amount;
  }
  void tell(const Instr& notify) { told_[counter(notify.rank, notify)] += notify.amount; }

  void start(size_t rank, const std::vector<BlockPart>& blocks, KernelProgress& kernel);
  // Lets all kernels come as far as they can.
  void go_on();

 private:
  // Whether any kernel's block came further.
  bool pass();
  // Whether the block has ended.
  bool go_on(size_t rank, KernelProgress::Block& block, bool& moved);

  const Plan& plan_;
  std::vector<size_t> first_counter_;  // by array, of a rank's
  size_t counters_of_rank_ = 0;
  std::vector<int64_t> told_;  // by rank and counter
  std::vector<std::pair<size_t, KernelProgress*>> running_;
};

}  // namespace stretto::cuda
