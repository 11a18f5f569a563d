#include "check/joints.h"

#include <map>
#include <utility>

namespace stretto::checker {

Joints::Joints(const Plan& plan, const InstrIndex& index, const Counters& counters,
               const EventNumbers& numbers) {
  struct Class {
    size_t waits = 0;
    std::vector<uint32_t> counters;
  };
  using Ends = std::vector<uint64_t>;  // lanes, each with the event behind which it has added all
  std::map<Ends, Class> classes;
  for (uint32_t c = 0; c < counters.size(); ++c) {
    const Counter& counter = counters[c];
    const std::span<const Share> shares = counters.shares(counter);
    if (shares.size() < 2) continue;
    // Lanes are ordered by rank.
    if (plan.lanes[shares.front().lane].rank != plan.lanes[shares.back().lane].rank) continue;
    size_t waits = 0;
    for (const uint32_t wait : counters.waits(counter)) {
      const InstrRef ref = index.ref(wait);
      const Instr& instr = plan.lanes[ref.lane].instrs[ref.pos];
      waits += counters.is_for_all(counter, ref.lane, instr.amount);
    }
    if (waits == 0) continue;
    Ends ends;
    for (const Share& share : shares) {
      const uint32_t last = index.of(share.lane, counters.notes(share).back().pos);
      ends.push_back(uint64_t{share.lane} << 32 | numbers.of(last));
    }
    Class& of_these = classes[std::move(ends)];
    of_these.waits += waits;
    of_these.counters.push_back(c);
  }
  for (const auto& [ends, of_these] : classes) {
    // Every wait names every lane, or the joint does and every wait names that.
    if (ends.size() * of_these.waits <= ends.size() + of_these.waits) continue;
    if (of_.empty()) of_.assign(counters.size(), kNone);
    for (const uint32_t c : of_these.counters) of_[c] = count();
    ranks_.push_back(plan.lanes[ends.front() >> 32].rank);
  }
}

}  // namespace stretto::checker
