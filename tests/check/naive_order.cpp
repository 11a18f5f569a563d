#include "check/naive_order.h"

#include <map>
#include <tuple>

namespace stretto {

NaiveOrder::NaiveOrder(const Plan& plan, int runs) {
  first_.push_back(0);
  for (const Lane& lane : plan.lanes) {
    first_.push_back(first_.back() + static_cast<uint32_t>(lane.instrs.size()));
  }
  run_ends_ = 2 * static_cast<uint32_t>(runs) * first_.back();
  next_.resize(run_ends_ + static_cast<size_t>(runs * plan.ranks()));
  for (int run = 0; run < runs; ++run) {
    connect_lanes(plan, run);
    connect_meetings(plan, run);
    connect_signals(plan, run);
  }
}

std::vector<bool> NaiveOrder::after(InstrRef from) const {
  std::vector<bool> reached(next_.size(), false);
  std::vector<uint32_t> open{begin(from, 0) + 1};
  while (!open.empty()) {
    const uint32_t node = open.back();
    open.pop_back();
    for (uint32_t to : next_[node]) {
      if (!reached[to]) open.push_back(to);
      reached[to] = true;
    }
  }
  return reached;
}

void NaiveOrder::connect_lanes(const Plan& plan, int run) {
  for (uint32_t lane = 0; lane < plan.lanes.size(); ++lane) {
    const uint16_t rank = plan.lanes[lane].rank;
    const auto ends = [&](int of_run) {
      return run_ends_ + static_cast<uint32_t>(of_run * plan.ranks()) + rank;
    };
    const auto size = static_cast<uint32_t>(plan.lanes[lane].instrs.size());
    for (uint32_t pos = 0; pos < size; ++pos) {
      const uint32_t node = begin({lane, pos}, run);
      add(node, node + 1);
      if (pos + 1 < size) add(node + 1, begin({lane, pos + 1}, run));
    }
    if (size == 0) continue;
    if (run > 0) add(ends(run - 1), begin({lane, 0}, run));
    add(begin({lane, size - 1}, run) + 1, ends(run));
  }
}

// None of those that meet ends before all have begun.
void NaiveOrder::connect_meetings(const Plan& plan, int run) {
  std::map<std::tuple<Opcode, int32_t, int>, std::vector<uint32_t>> meetings;
  for (uint32_t lane = 0; lane < plan.lanes.size(); ++lane) {
    for (uint32_t pos = 0; pos < plan.lanes[lane].instrs.size(); ++pos) {
      const Instr& instr = plan.lanes[lane].instrs[pos];
      if (instr.op != Opcode::boundary && instr.op != Opcode::collective) continue;
      const int own = plan.lanes[lane].rank;
      const int rank = instr.op == Opcode::boundary ? own : instr.team > 0 ? own / instr.team : -1;
      meetings[{instr.op, instr.id, rank}].push_back(begin({lane, pos}, run));
    }
  }
  for (const auto& [meeting, nodes] : meetings) {
    for (uint32_t from : nodes) {
      for (uint32_t to : nodes) add(from, to + 1);
    }
  }
}

void NaiveOrder::connect_signals(const Plan& plan, int run) {
  std::map<std::tuple<uint16_t, int32_t, uint16_t>, std::vector<InstrRef>> notifies;
  for (int second = 0; second < 2; ++second) {
    for (uint32_t lane = 0; lane < plan.lanes.size(); ++lane) {
      for (uint32_t pos = 0; pos < plan.lanes[lane].instrs.size(); ++pos) {
        const Instr& instr = plan.lanes[lane].instrs[pos];
        const auto& [array, index] = instr.signal;
        if (second == 0 && instr.op == Opcode::notify) {
          notifies[{array, index, instr.rank}].push_back({lane, pos});
        }
        if (second == 0 || instr.op != Opcode::wait || instr.lag > run) continue;
        for (const InstrRef& notify : notifies[{array, index, plan.lanes[lane].rank}]) {
          add(begin(notify, run - instr.lag) + 1, begin({lane, pos}, run));
        }
      }
    }
  }
}

}  // namespace stretto
