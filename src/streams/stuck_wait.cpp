#include "streams/stuck_wait.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace stretto::runtime {
namespace {

// From where on every lane that is known to be held up has not run.
class HeldUp {
 public:
  HeldUp(const Plan& plan, const StuckWait& stuck) : plan_(plan) {
    if (!stuck.known) return;
    hold(stuck.lane, stuck.position);
    // A collective that one rank has not joined holds up all others there.
    const auto& instrs = plan.lanes[stuck.lane].instrs;
    for (size_t i = stuck.position; i < instrs.size(); ++i) {
      if (instrs[i].op == Opcode::collective) {
        hold_collective(instrs[i].id, plan.joined_by(instrs[i], plan.lanes[stuck.lane].rank));
      }
      if (instrs[i].op == Opcode::boundary) hold_boundary(plan.lanes[stuck.lane], instrs[i].id);
    }
  }

  bool owes(uint16_t rank, const SignalRef& signal) const {
    for (const auto& [lane, position] : from_) {
      const auto& instrs = plan_.lanes[lane].instrs;
      for (size_t i = position; i < instrs.size(); ++i) {
        const Instr& instr = instrs[i];
        if (instr.op == Opcode::notify && instr.rank == rank && instr.signal == signal) return true;
      }
    }
    return false;
  }

 private:
  void hold(uint32_t lane, uint32_t position) {
    const auto [at, is_new] = from_.try_emplace(lane, position);
    if (!is_new) at->second = std::min(at->second, position);
  }
  template <typename Match>
  void hold_where(Match match) {
    for (uint32_t lane = 0; lane < plan_.lanes.size(); ++lane) {
      const auto& instrs = plan_.lanes[lane].instrs;
      for (uint32_t i = 0; i < instrs.size(); ++i) {
        if (match(plan_.lanes[lane], instrs[i])) hold(lane, i);
      }
    }
  }
  void hold_collective(int32_t id, const Plan::Joined& joined) {
    hold_where([&](const Lane& lane, const Instr& instr) {
      return instr.op == Opcode::collective && instr.id == id && joined.has(lane.rank);
    });
  }
  void hold_boundary(const Lane& of, int32_t id) {
    hold_where([&](const Lane& lane, const Instr& instr) {
      return lane.rank == of.rank && instr.op == Opcode::boundary && instr.id == id;
    });
  }

  const Plan& plan_;
  std::map<uint32_t, uint32_t> from_;
};

}  // namespace

std::optional<uint32_t> find_wait(const Lane& lane, uint32_t begin, uint32_t end,
                                  const SignalRef& signal, int32_t tile) {
  std::optional<uint32_t> found;
  for (uint32_t i = begin; i < end; ++i) {
    const Instr& instr = lane.instrs[i];
    if (instr.op == Opcode::wait && instr.signal == signal) found = i;
    if (found && instr.is_task() && instr.tile == tile) break;
  }
  return found;
}

WaitPlace find_wait(const Plan& plan, const cuda::BlockPart& part, const SignalRef& signal,
                    uint32_t tile) {
  if (tile == device::kAtEnd) {
    for (const cuda::Step& wait : part.at_end) {
      if (wait.instr(plan).signal == signal) return {wait.lane, wait.position};
    }
  }
  const std::optional<uint32_t> found =
      find_wait(plan.lanes[part.lane], part.begin, part.end, signal, static_cast<int32_t>(tile));
  return {part.lane, found.value_or(part.begin)};
}

StuckWait locate(const Plan& plan, int rank, const KernelPlace& place, const SignalRef& signal,
                 const device::WaitError& error) {
  StuckWait stuck;
  stuck.rank = rank;
  if (place.parts == nullptr) {
    const auto step =
        std::find_if(place.steps.begin(), place.steps.end(),
                     [&](const cuda::Step& s) { return s.instr(plan).signal == signal; });
    if (step == place.steps.end()) return stuck;
    stuck.lane = step->lane;
    stuck.position = step->position;
  } else {
    const uint32_t block = error.lane & ~device::kMoverLane;
    if (block >= place.parts->size()) return stuck;
    const WaitPlace wait = find_wait(plan, (*place.parts)[block], signal, error.tile);
    stuck.lane = wait.lane;
    stuck.position = wait.position;
  }
  const Instr& instr = plan.lanes[stuck.lane].instrs[stuck.position];
  stuck.expected = instr.amount;
  stuck.seen = instr.amount - static_cast<int64_t>(error.expected - error.seen);
  stuck.known = instr.op == Opcode::wait;
  return stuck;
}

std::vector<StuckWait> stood_still(const Plan& plan, int rank, std::span<const LeftWait> waits) {
  uint64_t run = UINT64_MAX;
  for (const LeftWait& wait : waits) {
    if (wait.left.missing != 0) run = std::min<uint64_t>(run, wait.left.run);
  }
  std::map<uint32_t, StuckWait> by_lane;
  for (const auto& [step, left] : waits) {
    if (left.missing == 0 || left.run != run) continue;
    const int64_t amount = step.instr(plan).amount;
    const StuckWait stuck{
        rank, step.lane, step.position, amount, amount - static_cast<int64_t>(left.missing),
        true, true};
    const auto [at, is_new] = by_lane.try_emplace(step.lane, stuck);
    if (!is_new && stuck.position < at->second.position) at->second = stuck;
  }
  std::vector<StuckWait> stuck;
  for (const auto& [lane, wait] : by_lane) stuck.push_back(wait);
  return stuck;
}

void add_let_go(std::vector<StuckWait>& stuck, const std::vector<StuckWait>& let_go) {
  for (const StuckWait& one : let_go) {
    const bool is_told = std::any_of(stuck.begin(), stuck.end(), [&](const StuckWait& other) {
      return other.lane == one.lane && other.position == one.position;
    });
    if (!is_told) stuck.push_back(one);
  }
}

void drop_let_go_alone(std::vector<StuckWait>& stuck) {
  const bool some_expired =
      std::any_of(stuck.begin(), stuck.end(), [](const StuckWait& one) { return !one.let_go; });
  if (!some_expired) stuck.clear();
}

const StuckWait& root_of(const Plan& plan, const std::vector<StuckWait>& stuck) {
  const auto is_explained = [&](const StuckWait& one) {
    const Instr& wait = plan.lanes[one.lane].instrs[one.position];
    return std::any_of(stuck.begin(), stuck.end(), [&](const StuckWait& other) {
      return &other != &one &&
             HeldUp(plan, other).owes(static_cast<uint16_t>(one.rank), wait.signal);
    });
  };
  for (const bool let_go : {false, true}) {
    for (const StuckWait& one : stuck) {
      if (one.known && one.let_go == let_go && !is_explained(one)) return one;
    }
  }
  return stuck.front();
}

std::string describe(const Plan& plan, const StuckWait& stuck, uint64_t timeout_ns) {
  const uint64_t timeout_ms = timeout_ns / 1'000'000;
  if (!stuck.known) {
    return fmt::format("rank {} waited {} ms for a signal that did not come", stuck.rank,
                       timeout_ms);
  }
  const auto& instrs = plan.lanes[stuck.lane].instrs;
  const auto task = std::find_if(instrs.begin() + stuck.position, instrs.end(),
                                 [](const Instr& instr) { return !instr.is_sync(); });
  std::string before;
  if (task == instrs.end()) {
    before = "at its end";
  } else if (task->tile >= 0) {
    before = fmt::format("before tile {}", task->tile);
  } else if (task->op == Opcode::deliver) {
    before = "before it delivers";
  } else {
    before = fmt::format("before {} {}", to_string(task->op), task->id);
  }
  return fmt::format("{} waited {} ms {} for {}: expected {}, seen {}",
                     stretto::describe(plan.lanes[stuck.lane]), timeout_ms, before,
                     stretto::describe(plan, instrs[stuck.position].signal), stuck.expected,
                     stuck.seen);
}

RunFault fault_of(const Plan& plan, const std::vector<StuckWait>& stuck, uint64_t timeout_ns) {
  const StuckWait& root = root_of(plan, stuck);
  std::optional<InstrRef> where;
  if (root.known) where = InstrRef{root.lane, root.position};
  return RunFault(describe(plan, root, timeout_ns), where);
}

}  // namespace stretto::runtime
