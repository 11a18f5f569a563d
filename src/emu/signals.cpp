#include "emu/signals.h"

#include <fmt/format.h>

#include <algorithm>

#include "stretto/error.h"

namespace stretto::emu {

Signals::Signals(const Plan& plan, int runs) : plan_(plan), waiters_(plan.lanes.size()) {
  for (const SignalArray& array : plan.signals) {
    first_.push_back(slots_per_rank_);
    slots_per_rank_ += static_cast<size_t>(array.count);
    max_copies_ = std::max<size_t>(max_copies_, array.copies);
  }
  const size_t slots = slots_per_rank_ * static_cast<size_t>(plan.ranks());
  totals_.resize(slots);
  values_.resize(slots * max_copies_);
  waiting_.resize(slots * max_copies_);
  const int64_t limit = (int64_t{1} << 62) / std::max(runs, 1);
  for (const Lane& lane : plan.lanes) {
    for (const Instr& instr : lane.instrs) {
      if (instr.op == Opcode::wait && (instr.amount > limit || instr.amount < -limit)) {
        throw UsageError(fmt::format("{} waits for {} >= {}; thresholds end at {}", describe(lane),
                                     describe(plan, instr.signal), instr.amount, limit));
      }
      if (instr.op != Opcode::notify) continue;
      int64_t& total = totals_[slot(instr.signal, instr.rank)];
      if (instr.amount < 0 || instr.amount > limit - total) {
        throw UsageError(
            fmt::format("{} notifies {} += {}; amounts are positive and add up to {} "
                        "in one run at most",
                        describe(lane), describe(plan, instr.signal), instr.amount, limit));
      }
      total += instr.amount;
    }
  }
}

double Signals::bytes_needed(const Plan& plan) {
  double slots = 0;
  int copies = 1;
  for (const SignalArray& array : plan.signals) {
    slots += array.count;
    copies = std::max<int>(copies, array.copies);
  }
  return slots * plan.ranks() * (sizeof(int64_t) + copies * (sizeof(int64_t) + sizeof(uint32_t)));
}

size_t Signals::slot(const SignalRef& signal, int rank) const {
  return static_cast<size_t>(rank) * slots_per_rank_ + first_[signal.array] +
         static_cast<size_t>(signal.index);
}

size_t Signals::counter(const SignalRef& signal, int rank, int run) const {
  const int copies = plan_.signals[signal.array].copies;
  return slot(signal, rank) * max_copies_ + static_cast<size_t>(run % copies);
}

int64_t Signals::base(const SignalRef& signal, int rank, int run) const {
  return run / plan_.signals[signal.array].copies * totals_[slot(signal, rank)];
}

void Signals::add(size_t counter, int64_t amount, std::vector<uint32_t>& woken) {
  values_[counter] += amount;
  uint32_t* link = &waiting_[counter];
  while (*link != 0) {
    const uint32_t lane = *link - 1;
    if (waiters_[lane].threshold <= values_[counter]) {
      *link = waiters_[lane].next;
      woken.push_back(lane);
    } else {
      link = &waiters_[lane].next;
    }
  }
}

void Signals::block(uint32_t lane, size_t counter, int64_t threshold) {
  waiters_[lane] = {threshold, waiting_[counter]};
  waiting_[counter] = lane + 1;
}

}  // namespace stretto::emu
