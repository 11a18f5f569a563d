#include "cuda/order_steps.h"

#include <algorithm>

#include "stretto/error.h"

namespace stretto::cuda {
namespace {

// Enqueues streams in turn, each as far as it can go.
class Ordering {
 public:
  Ordering(const Plan& plan, RankProgram& program) : plan_(plan), program_(program) {
    int64_t num_counters = 0;
    for (const SignalArray& array : plan.signals) {
      first_counter_.push_back(num_counters);
      num_counters += array.count;
    }
    missing_.assign(static_cast<size_t>(num_counters), 0);
    own_ = missing_;
    for (const StepStream& stream : program.streams) {
      for (const Step& step : stream.steps) count(step, +1, missing_);
    }
  }

  void run() {
    std::vector<uint32_t> priority;  // comm blocks first, so that they have their SMs
    for (uint32_t s = 0; s < program_.streams.size(); ++s) priority.push_back(s);
    std::stable_sort(priority.begin(), priority.end(),
                     [&](uint32_t a, uint32_t b) { return is_comm(a) > is_comm(b); });
    at_.assign(priority.size(), 0);
    bool forced = false;
    for (;;) {
      bool moved = false, left = false;
      for (const uint32_t s : priority) {
        while (at_[s] < program_.streams[s].steps.size()) {
          const Step& step = program_.streams[s].steps[at_[s]];
          if (!event_is_there(step) || !(forced || signals_are_made(step))) break;
          forced = false;
          program_.order.push_back({s, at_[s]++});
          if (step.kind == StepKind::record) recorded_.push_back(step.index);
          count(step, -1, missing_);
          moved = true;
        }
        left = left || at_[s] < program_.streams[s].steps.size();
      }
      if (!left) return;
      STRETTO_ASSERT(moved || !forced, "streams of a rank wait for each other's events");
      forced = !moved;
    }
  }

 private:
  bool is_comm(uint32_t s) const { return program_.streams[s].kind == LaneKind::comm; }

  template <typename Visit>
  void for_each_sync(const Step& step, Opcode op, Visit visit) const {
    if (step.kind == StepKind::gemm || step.kind == StepKind::move) {
      const auto& kernels = step.kind == StepKind::gemm ? program_.gemms : program_.moves;
      for (const BlockPart& part : kernels[step.index]) {
        for (uint32_t i = part.begin; i < part.end; ++i) {
          const Instr& instr = plan_.lanes[part.lane].instrs[i];
          if (instr.op == op) visit(plan_.lanes[part.lane], instr);
        }
        for (const Step& wait : part.at_end) {
          if (op == Opcode::wait) visit(plan_.lanes[wait.lane], wait.instr(plan_));
        }
      }
    } else if (step.kind == StepKind::wait || step.kind == StepKind::notify) {
      if (step.instr(plan_).op == op) visit(plan_.lanes[step.lane], step.instr(plan_));
    }
  }

  size_t counter(const Instr& instr) const {
    return static_cast<size_t>(first_counter_[instr.signal.array] + instr.signal.index);
  }
  // The notifies of this rank to itself.
  void count(const Step& step, int64_t sign, std::vector<int64_t>& counters) const {
    for_each_sync(step, Opcode::notify, [&](const Lane& lane, const Instr& instr) {
      if (instr.rank == lane.rank) counters[counter(instr)] += sign * instr.amount;
    });
  }
  bool event_is_there(const Step& step) const {
    return step.kind != StepKind::await ||
           std::find(recorded_.begin(), recorded_.end(), step.index) != recorded_.end();
  }
  bool signals_are_made(const Step& step) {
    // Movers wait inside a kernel that has its own SMs: they come first.
    if (step.kind == StepKind::move && is_first_mover(step)) return true;
    count(step, +1, own_);  // a kernel may wait for itself
    bool made = true;
    for_each_sync(step, Opcode::wait, [&](const Lane&, const Instr& instr) {
      if (instr.lag == 0 && missing_[counter(instr)] > own_[counter(instr)]) made = false;
    });
    count(step, -1, own_);
    return made;
  }
  bool is_first_mover(const Step& step) const {
    for (const StepStream& stream : program_.streams) {
      if (stream.kind == LaneKind::comm && stream.steps.front() == step) return true;
    }
    return false;
  }

  const Plan& plan_;
  RankProgram& program_;
  std::vector<uint32_t> at_, recorded_;
  std::vector<int64_t> first_counter_;  // by array
  std::vector<int64_t> missing_;        // by counter: notifies that are not yet enqueued
  std::vector<int64_t> own_;            // the same: those of the step that is asked about
};

}  // namespace

void order_steps(const Plan& plan, RankProgram& program) {
  if (program.streams.size() > 1) return Ordering(plan, program).run();
  for (uint32_t i = 0; i < program.streams[0].steps.size(); ++i) program.order.push_back({0, i});
}

}  // namespace stretto::cuda
