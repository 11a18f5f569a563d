#include "mutants/admission.h"

#include <algorithm>
#include <numeric>

namespace stretto::mutants {

Admission::Admission(const Plan& plan, int sms, uint64_t seed)
    : plan_(plan), sms_(sms), random_(seed), states_(plan.lanes.size()) {
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    for (const SignalArray& array : plan.signals) {
      counters_.emplace_back(static_cast<size_t>(array.count));
    }
  }
}

int64_t& Admission::counter(const SignalRef& signal, uint16_t rank) {
  return counters_[rank * plan_.signals.size() + signal.array][static_cast<size_t>(signal.index)];
}

bool Admission::has_only_waits(size_t l) const {
  const Lane& lane = plan_.lanes[l];
  if (lane.kind != LaneKind::compute) return is_over(l);
  size_t pos = states_[l].pos;
  const auto runs_nothing = [](Opcode op) { return op == Opcode::wait || op == Opcode::deliver; };
  while (pos < lane.instrs.size() && runs_nothing(lane.instrs[pos].op)) ++pos;
  return pos == lane.instrs.size() || lane.instrs[pos].op == Opcode::boundary;
}

int Admission::resident(uint16_t rank, bool only_gemms) const {
  int count = 0;
  for (size_t l = 0; l < states_.size(); ++l) {
    const Lane& lane = plan_.lanes[l];
    if (lane.rank != rank || !states_[l].is_resident) continue;
    // Behind its last gemm, and what goes on with its tile, a compute lane is a mover's block.
    const bool multiplies =
        lane.kind == LaneKind::compute &&
        std::any_of(lane.instrs.begin() + static_cast<std::ptrdiff_t>(states_[l].pos),
                    lane.instrs.end(), [](const Instr& i) {
                      return i.op == Opcode::gemm || (i.fused && i.op != Opcode::norm);
                    });
    count += !only_gemms || multiplies;
  }
  return count;
}

bool Admission::admit(size_t l) {
  const Lane& lane = plan_.lanes[l];
  if (!is_block(lane) || states_[l].is_resident || is_over(l) || has_only_waits(l)) return false;
  if (resident(lane.rank, false) >= sms_) return false;
  states_[l].is_resident = true;
  return true;
}

bool Admission::pass_boundary(size_t l) {
  std::vector<size_t> mates;
  for (size_t m = 0; m < states_.size(); ++m) {
    const Lane& lane = plan_.lanes[m];
    if (lane.rank != plan_.lanes[l].rank || lane.kind != LaneKind::compute) continue;
    if (is_over(m) || next(m).op != Opcode::boundary) return false;
    mates.push_back(m);
  }
  for (const size_t mate : mates) ++states_[mate].pos;
  return true;
}

bool Admission::pass_collective(size_t l) {
  const int32_t id = next(l).id;
  std::vector<size_t> peers;
  for (size_t m = 0; m < states_.size(); ++m) {
    if (is_over(m) || next(m).op != Opcode::collective || next(m).id != id) continue;
    if (resident(plan_.lanes[m].rank, false) < sms_) peers.push_back(m);
  }
  if (peers.size() < static_cast<size_t>(plan_.ranks())) return false;
  for (const size_t peer : peers) ++states_[peer].pos;
  return true;
}

// Does what the next instruction does, where it can.
bool Admission::can_pass(size_t l) {
  const Lane& lane = plan_.lanes[l];
  const Instr& instr = next(l);
  switch (instr.op) {
    case Opcode::wait:
      if (instr.lag == 0 && counter(instr.signal, lane.rank) < instr.amount) return false;
      break;
    case Opcode::notify:
      if (!is_block(lane) && resident(lane.rank, true) >= sms_) return false;
      counter(instr.signal, instr.rank) += instr.amount;
      break;
    case Opcode::boundary:
      return pass_boundary(l);
    case Opcode::collective:
      return pass_collective(l);
    default:
      break;
  }
  ++states_[l].pos;
  return true;
}

bool Admission::advance(size_t l) {
  bool any = false;
  while (!is_over(l)) {
    const bool leaves = has_only_waits(l);
    if (leaves) states_[l].is_resident = false;
    if (is_block(plan_.lanes[l]) && !states_[l].is_resident && !leaves) break;
    if (!can_pass(l)) break;
    any = true;
  }
  if (is_over(l)) states_[l].is_resident = false;
  return any;
}

bool Admission::all_end() {
  std::vector<size_t> order(states_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  for (bool any = true; any;) {
    any = false;
    std::shuffle(order.begin(), order.end(), random_);
    // Some orders let blocks in before anything moves, some only when nothing does.
    const bool is_eager = random_() % 2 == 0;
    for (const size_t lane : order) any = (is_eager && admit(lane)) || any;
    for (const size_t lane : order) any = advance(lane) || any;
    for (size_t i = 0; i < order.size() && !any; ++i) any = admit(order[i]);
  }
  for (size_t lane = 0; lane < states_.size(); ++lane) {
    if (!is_over(lane)) return false;
  }
  return true;
}

}  // namespace stretto::mutants
