#include "plan/meets.h"

#include <cstdint>
#include <vector>

namespace stretto {
namespace {

constexpr int kMostRanks = 64;  // of whom a word says who they are

uint64_t bit(int rank) { return uint64_t{1} << rank; }

// A counter of one rank in one run: who adds to it, and how much in all.
struct Counter {
  uint64_t notifiers = 0;
  int64_t sum = 0;
};

class Counters {
 public:
  explicit Counters(const Plan& plan) {
    int64_t count = 0;
    for (const SignalArray& array : plan.signals) {
      first_.push_back(count);
      count += array.count;
    }
    counters_.assign(static_cast<size_t>(plan.ranks()),
                     std::vector<Counter>(static_cast<size_t>(count)));
    for (const Lane& lane : plan.lanes) {
      for (const Instr& instr : lane.instrs) {
        if (instr.op != Opcode::notify) continue;
        Counter& counter = at(instr.rank, instr);
        counter.notifiers |= bit(lane.rank);
        counter.sum += instr.amount;
      }
    }
  }

  // Those without whom the wait does not end: all who notify, where it is for all that they add.
  uint64_t awaited(int rank, const Instr& wait) {
    const Counter& counter = at(rank, wait);
    return wait.amount >= counter.sum ? counter.notifiers : 0;
  }

 private:
  Counter& at(int rank, const Instr& instr) {
    return counters_[static_cast<size_t>(rank)]
                    [static_cast<size_t>(first_[instr.signal.array] + instr.signal.index)];
  }

  std::vector<int64_t> first_;  // by array
  std::vector<std::vector<Counter>> counters_;
};

}  // namespace

bool meets_all_ranks(const Plan& plan) {
  const int ranks = plan.ranks();
  if (ranks > kMostRanks) return false;
  Counters counters(plan);
  std::vector<uint64_t> awaited(static_cast<size_t>(ranks));
  for (const Lane& lane : plan.lanes) {
    for (const Instr& instr : lane.instrs) {
      if (instr.op != Opcode::wait || instr.lag != 0) continue;  // others await a run before
      awaited[lane.rank] |= counters.awaited(lane.rank, instr);
    }
  }
  const uint64_t all = ranks == kMostRanks ? ~uint64_t{0} : bit(ranks) - 1;
  for (int rank = 0; rank < ranks; ++rank) {
    if ((awaited[static_cast<size_t>(rank)] | bit(rank)) != all) return false;
  }
  return true;
}

}  // namespace stretto
