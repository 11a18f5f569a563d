#include "check/mutations.h"

#include <fmt/format.h>

#include <algorithm>

#include "check/naive_order.h"

namespace stretto {
namespace {

bool conflict(const Plan& plan, const Instr& a, const Instr& b) {
  auto meet = [](std::span<const Region> x, std::span<const Region> y) {
    return std::any_of(x.begin(), x.end(), [&](const Region& r) {
      return std::any_of(y.begin(), y.end(), [&](const Region& s) { return r.overlaps(s); });
    });
  };
  return meet(plan.writes(a), plan.writes(b)) || meet(plan.writes(a), plan.reads(b)) ||
         meet(plan.reads(a), plan.writes(b));
}

// Whether swapping a boundary with its neighbour takes away an order that two tasks need.
class BoundarySwaps {
 public:
  explicit BoundarySwaps(const Plan& plan)
      : plan_(plan), runs_(runs_of(plan)), order_(plan, runs_) {
    for (uint32_t lane = 0; lane < plan.lanes.size(); ++lane) {
      for (uint32_t pos = 0; pos < plan.lanes[lane].instrs.size(); ++pos) {
        if (plan.lanes[lane].instrs[pos].is_task()) tasks_.push_back({lane, pos});
      }
    }
  }

  bool loses_order(InstrRef at) const {
    Plan swapped = plan_;
    apply(swapped, {MutationKind::swap_with_next, at});
    const NaiveOrder order(swapped, runs_);
    const InstrRef next{at.lane, at.pos + 1};
    for (const InstrRef& p : tasks_) {
      // Swapping [task, boundary] only takes away orders that begin with the task.
      if (instr(at).is_task() && p != at) continue;
      std::vector<InstrRef> others = conflicts(p);
      // Swapping [boundary, task] only takes away orders that end with the task.
      if (instr(next).is_task()) std::erase_if(others, [&](InstrRef q) { return q != next; });
      if (others.empty()) continue;
      auto now = [&](InstrRef ref) { return ref == at ? next : ref == next ? at : ref; };
      const std::vector<bool> before = order_.after(p), after = order.after(now(p));
      for (const InstrRef& q : others) {
        for (int run : {0, copies(p, q)}) {
          if (before[order_.begin(q, run)] && !after[order.begin(now(q), run)]) return true;
        }
      }
    }
    return false;
  }

 private:
  static int runs_of(const Plan& plan) {
    int copies = 1;
    for (const Buffer& buffer : plan.buffers) copies = std::max<int>(copies, buffer.copies);
    return copies + 1;
  }
  const Instr& instr(InstrRef ref) const { return plan_.lanes[ref.lane].instrs[ref.pos]; }
  std::vector<InstrRef> conflicts(InstrRef p) const {
    std::vector<InstrRef> found;
    for (const InstrRef& q : tasks_) {
      if (q.lane != p.lane && conflict(plan_, instr(p), instr(q))) found.push_back(q);
    }
    return found;
  }
  // The copies of the buffer in which they meet.
  int copies(InstrRef p, InstrRef q) const {
    int found = 1;
    auto look = [&](std::span<const Region> x, std::span<const Region> y) {
      for (const Region& r : x) {
        for (const Region& s : y) {
          if (r.overlaps(s)) found = plan_.buffers[r.buffer].copies;
        }
      }
    };
    look(plan_.reads(instr(p)), plan_.writes(instr(q)));
    look(plan_.writes(instr(p)), plan_.reads(instr(q)));
    return found;
  }

  const Plan& plan_;
  const int runs_;
  const NaiveOrder order_;
  std::vector<InstrRef> tasks_;
};

bool dependent(const Plan& plan, const Instr& a, const Instr& b) {
  if (a.op == Opcode::wait) return b.is_task();
  if (b.op == Opcode::notify) return a.is_task();
  if (a.is_sync() || b.is_sync()) return false;
  if (a.op == b.op && (a.op == Opcode::boundary || a.op == Opcode::collective)) return true;
  return a.is_task() && b.is_task() && conflict(plan, a, b);
}

}  // namespace

std::vector<Mutation> mutations_of(const Plan& plan, bool with_boundaries) {
  const BoundarySwaps boundaries(plan);
  std::vector<Mutation> found;
  for (uint32_t lane = 0; lane < plan.lanes.size(); ++lane) {
    const std::vector<Instr>& instrs = plan.lanes[lane].instrs;
    for (uint32_t pos = 0; pos < instrs.size(); ++pos) {
      const InstrRef at{lane, pos};
      if (instrs[pos].op == Opcode::wait) {
        found.push_back({MutationKind::delete_wait, at});
        found.push_back({MutationKind::lower_threshold, at});
      }
      if (instrs[pos].op == Opcode::notify) found.push_back({MutationKind::delete_notify, at});
      if (pos + 1 == instrs.size()) continue;
      const Instr &a = instrs[pos], &b = instrs[pos + 1];
      const bool boundary = (a.op == Opcode::boundary) != (b.op == Opcode::boundary);
      if (boundary ? with_boundaries && boundaries.loses_order(at) : dependent(plan, a, b)) {
        found.push_back({MutationKind::swap_with_next, at});
      }
    }
  }
  return found;
}

void apply(Plan& plan, const Mutation& mutation) {
  std::vector<Instr>& instrs = plan.lanes[mutation.at.lane].instrs;
  const auto at = instrs.begin() + mutation.at.pos;
  switch (mutation.kind) {
    case MutationKind::delete_wait:
    case MutationKind::delete_notify:
      instrs.erase(at);
      break;
    case MutationKind::lower_threshold:
      --at->amount;
      break;
    case MutationKind::swap_with_next:
      std::iter_swap(at, at + 1);
      break;
  }
}

std::string describe(const Plan& plan, const Mutation& mutation) {
  static constexpr const char* kNames[] = {"delete wait", "delete notify", "lower threshold",
                                           "swap"};
  const Lane& lane = plan.lanes[mutation.at.lane];
  std::string text =
      fmt::format("{}: {} instruction {} ({})", kNames[static_cast<size_t>(mutation.kind)],
                  describe(lane), mutation.at.pos, print(plan, lane, lane.instrs[mutation.at.pos]));
  if (mutation.kind == MutationKind::swap_with_next) {
    text += fmt::format(" with ({})", print(plan, lane, lane.instrs[mutation.at.pos + 1]));
  }
  return text;
}

}  // namespace stretto
