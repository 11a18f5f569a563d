#include "check/meets.h"

#include <algorithm>
#include <vector>

#include "check/counters.h"
#include "check/instr_index.h"

namespace stretto::checker {

bool meets_all_ranks(const Plan& plan) {
  const InstrIndex index(plan);
  const Counters counters(plan, index);
  const auto ranks = static_cast<size_t>(plan.ranks());
  std::vector<std::vector<bool>> hears(ranks, std::vector<bool>(ranks));
  for (size_t rank = 0; rank < ranks; ++rank) hears[rank][rank] = true;
  for (uint32_t l = 0; l < plan.lanes.size(); ++l) {
    const Lane& lane = plan.lanes[l];
    for (uint32_t i = 0; i < lane.instrs.size(); ++i) {
      const Instr& wait = lane.instrs[i];
      if (wait.op != Opcode::wait || wait.lag != 0) continue;  // others await a run before
      const Counter& counter = counters[counters.of(index.of(l, i))];
      if (wait.amount < counter.total) continue;  // some of those who add to it may be enough
      for (const Share& share : counters.shares(counter)) {
        hears[lane.rank][plan.lanes[share.lane].rank] = true;
      }
    }
  }
  return std::all_of(hears.begin(), hears.end(), [](const std::vector<bool>& of_rank) {
    return std::all_of(of_rank.begin(), of_rank.end(), [](bool one) { return one; });
  });
}

}  // namespace stretto::checker
