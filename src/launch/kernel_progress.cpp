#include "launch/kernel_progress.h"

namespace stretto::cuda {

EnqueuedKernels::EnqueuedKernels(const Plan& plan, size_t num_ranks) : plan_(plan) {
  for (const SignalArray& array : plan.signals) {
    first_counter_.push_back(counters_of_rank_);
    counters_of_rank_ += static_cast<size_t>(array.count);
  }
  told_.assign(num_ranks * counters_of_rank_, 0);
}

size_t EnqueuedKernels::counter(size_t rank, const Instr& instr) const {
  return rank * counters_of_rank_ + first_counter_[instr.signal.array] +
         static_cast<size_t>(instr.signal.index);
}

void EnqueuedKernels::start(size_t rank, const std::vector<BlockPart>& blocks,
                            KernelProgress& kernel) {
  for (const BlockPart& part : blocks) kernel.running.push_back({&part, part.begin, 0});
  running_.push_back({rank, &kernel});
  go_on();
}

void EnqueuedKernels::go_on() {
  while (pass()) {
  }
}

bool EnqueuedKernels::pass() {
  bool moved = false;
  for (const auto& [rank, kernel] : running_) {
    std::erase_if(kernel->running, [&, at_rank = rank](KernelProgress::Block& block) {
      return go_on(at_rank, block, moved);
    });
    kernel->has_ended = kernel->running.empty();
  }
  std::erase_if(running_, [](const auto& running) { return running.second->has_ended; });
  return moved;
}

bool EnqueuedKernels::go_on(size_t rank, KernelProgress::Block& block, bool& moved) {
  const BlockPart& part = *block.part;
  const uint32_t before = block.at;
  for (; block.at < part.end; ++block.at) {
    const Instr& instr = plan_.lanes[part.lane].instrs[block.at];
    if (instr.op == Opcode::wait && !has_come(rank, instr)) break;
    if (instr.op == Opcode::notify) tell(instr);
  }
  moved = moved || block.at != before;
  if (block.at < part.end) return false;
  while (block.waited < part.at_end.size()) {
    if (!has_come(rank, part.at_end[block.waited].instr(plan_))) return false;
    ++block.waited;
  }
  return true;
}

}  // namespace stretto::cuda
