#include "launch/stream_events.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "plan/kernel_calls.h"

namespace stretto::cuda {
namespace {

struct Place {
  uint32_t stream, step;
  int64_t amount;  // of the wait or notify
  int lag = 0;
};

// All that concerns one counter of one rank.
struct CounterUse {
  int64_t per_run = 0;          // all notifies, of whatever rank
  int64_t by_steps = 0;         // those that steps of the rank itself make
  std::vector<Place> notifies;  // these, in stream order
  std::vector<Place> waits;     // of steps
  bool awaited_in_kernel = false;
};

class EventPlacement {
 public:
  EventPlacement(const Plan& plan, std::vector<RankProgram>& programs)
      : plan_(plan), programs_(programs) {
    for (const SignalArray& array : plan.signals) {
      first_counter_.push_back(num_counters_);
      num_counters_ += static_cast<size_t>(array.count);
    }
  }

  void run() {
    for (uint16_t rank = 0; rank < programs_.size(); ++rank) collect(rank);
    if (uses_.empty()) return;
    for (const Lane& lane : plan_.lanes) {
      for (const Instr& instr : lane.instrs) {
        if (instr.op != Opcode::notify) continue;
        if (CounterUse* use = find_use(instr.rank, instr)) use->per_run += instr.amount;
      }
    }
    for (uint16_t rank = 0; rank < programs_.size(); ++rank) find_kernels(rank);
    for (size_t counter = 0; counter < use_of_.size(); ++counter) {
      if (use_of_[counter] == 0) continue;
      const CounterUse& use = uses_[use_of_[counter] - 1];
      const auto rank = static_cast<uint16_t>(counter / num_counters_);
      if (use.by_steps == use.per_run && !use.waits.empty()) resolve(rank, use);
    }
    for (size_t rank = 0; rank < programs_.size(); ++rank) rewrite(rank);
  }

 private:
  // What becomes of a step.
  struct Fate {
    bool dropped = false;
    std::vector<uint32_t> awaits;      // instead of it
    std::optional<uint32_t> recorded;  // after it
  };
  using Fates = std::map<std::pair<uint32_t, uint32_t>, Fate>;  // by stream and step

  void collect(uint16_t rank) {
    const RankProgram& program = programs_[rank];
    for (uint32_t s = 0; s < program.streams.size(); ++s) {
      const std::vector<Step>& steps = program.streams[s].steps;
      for (uint32_t i = 0; i < steps.size(); ++i) {
        if (steps[i].kind != StepKind::wait && steps[i].kind != StepKind::notify) continue;
        const Instr& instr = steps[i].instr(plan_);
        if (instr.op == Opcode::wait) {
          use_of(rank, instr).waits.push_back({s, i, instr.amount, instr.lag});
        } else if (instr.rank == rank) {
          CounterUse& use = use_of(rank, instr);
          use.by_steps += instr.amount;
          use.notifies.push_back({s, i, instr.amount});
        }
      }
    }
  }

  void find_kernels(uint16_t rank) {
    for (const auto* kernels : {&programs_[rank].gemms, &programs_[rank].moves}) {
      for (const auto& blocks : *kernels) {
        for (const BlockPart& part : blocks) {
          for (uint32_t i = part.begin; i < part.end; ++i) {
            const Instr& instr = plan_.lanes[part.lane].instrs[i];
            if (instr.op != Opcode::wait) continue;
            if (CounterUse* use = find_use(rank, instr)) use->awaited_in_kernel = true;
          }
          for (const Step& wait : part.at_end) {
            CounterUse* use = find_use(rank, wait.instr(plan_));
            if (use != nullptr) use->awaited_in_kernel = true;
          }
        }
      }
    }
  }

  // The number of a counter in the memory of `rank`.
  size_t counter(uint16_t rank, const Instr& instr) const {
    return rank * num_counters_ + first_counter_[instr.signal.array] +
           static_cast<size_t>(instr.signal.index);
  }
  CounterUse& use_of(uint16_t rank, const Instr& instr) {
    if (use_of_.empty()) use_of_.assign(programs_.size() * num_counters_, 0);
    uint32_t& number = use_of_[counter(rank, instr)];
    if (number == 0) {
      uses_.emplace_back();
      number = static_cast<uint32_t>(uses_.size());
    }
    return uses_[number - 1];
  }
  // Of a counter that some step awaits or adds to.
  CounterUse* find_use(uint16_t rank, const Instr& instr) {
    const uint32_t number = use_of_[counter(rank, instr)];
    return number == 0 ? nullptr : &uses_[number - 1];
  }

  // The notifies that a wait for `amount` needs: the last of each stream when it needs all of them,
  // or as many as it takes where one stream makes them; nothing when neither holds.
  static std::vector<Place> needs(const CounterUse& use, int64_t amount) {
    std::map<uint32_t, Place> last;  // by stream
    for (const Place& notify : use.notifies) last[notify.stream] = notify;
    std::vector<Place> needed;
    if (amount == use.per_run) {
      for (const auto& [stream, notify] : last) needed.push_back(notify);
    } else if (last.size() == 1) {
      int64_t sum = 0;
      for (const Place& notify : use.notifies) {
        if ((sum += notify.amount) < amount) continue;
        needed.push_back(notify);
        break;
      }
    }
    return needed;
  }

  void resolve(uint16_t rank, const CounterUse& use) {
    bool all_resolved = true;
    for (const Place& wait : use.waits) {
      Fate& fate = fates_[rank][{wait.stream, wait.step}];
      if (wait.lag > 0) {
        fate.dropped = true;
        continue;
      }
      const std::vector<Place> needed = needs(use, wait.amount);
      all_resolved = all_resolved && !needed.empty();
      fate.dropped = !needed.empty();
      for (const Place& notify : needed) {
        if (notify.stream == wait.stream) continue;
        Fate& source = fates_[rank][{notify.stream, notify.step}];
        if (!source.recorded) source.recorded = programs_[rank].num_events++;
        fate.awaits.push_back(*source.recorded);
      }
    }
    if (!all_resolved || use.awaited_in_kernel) return;
    for (const Place& notify : use.notifies) {
      fates_[rank][{notify.stream, notify.step}].dropped = true;
    }
  }

  void rewrite(size_t rank) {
    const auto found = fates_.find(static_cast<uint16_t>(rank));
    if (found == fates_.end()) return;
    for (uint32_t s = 0; s < programs_[rank].streams.size(); ++s) {
      std::vector<Step>& steps = programs_[rank].streams[s].steps;
      std::vector<Step> rewritten;
      for (uint32_t i = 0; i < steps.size(); ++i) {
        const auto fate = found->second.find({s, i});
        if (fate == found->second.end()) {
          rewritten.push_back(steps[i]);
          continue;
        }
        if (!fate->second.dropped) rewritten.push_back(steps[i]);
        for (const uint32_t event : fate->second.awaits) {
          rewritten.push_back({StepKind::await, event, 0, 0});
        }
        if (fate->second.recorded) {
          rewritten.push_back({StepKind::record, *fate->second.recorded, 0, 0});
        }
      }
      steps = std::move(rewritten);
    }
  }

  const Plan& plan_;
  std::vector<RankProgram>& programs_;
  std::vector<size_t> first_counter_;  // by array, of a rank's
  size_t num_counters_ = 0;            // of a rank
  std::vector<uint32_t> use_of_;       // by rank and counter: 1 + place in uses_; 0: nowhere
  std::vector<CounterUse> uses_;
  std::map<uint16_t, Fates> fates_;
};

bool is_event(const Step& step) {
  return step.kind == StepKind::record || step.kind == StepKind::await;
}

// Puts the collectives of a rank's only NCCL stream into the compute lanes' stream where the two
// take turns: wherever one can go on, the other awaits it, or is at its end. NCCL's do so where all
// of one comes before all of the other; kernels of the device language, some of which want to stand
// right behind their product so that they can be there before it has ended, at any number of turns,
// and beside copy engines too, which neither await.
void chain_streams(const Plan& plan, RankProgram& program) {
  const size_t streams = program.streams.size();
  if (streams < 2 || program.streams.back().kind != LaneKind::nccl) return;
  const bool are_by_language = any_by_language(plan) && !any_by_nccl(plan);
  const bool is_beside_copies =
      streams == 3 && are_by_language && program.streams[1].kind == LaneKind::copy &&
      std::none_of(program.streams[1].steps.begin(), program.streams[1].steps.end(), is_event);
  if (streams != 2 && !is_beside_copies) return;
  const std::vector<Step>& nccl = program.streams.back().steps;
  if (std::any_of(nccl.begin(), nccl.end(), [](const Step& step) {
        return step.kind == StepKind::wait || step.kind == StepKind::notify;
      })) {
    return;
  }
  std::vector<Step> chain;
  std::vector<bool> recorded(program.num_events, false);
  size_t at[2] = {0, 0}, last = 2, turns = 0;
  const auto steps_of = [&](size_t stream) -> const std::vector<Step>& {
    return stream == 0 ? program.streams.front().steps : nccl;
  };
  const auto can_go_on = [&](size_t stream) {
    const std::vector<Step>& steps = steps_of(stream);
    if (at[stream] == steps.size()) return false;
    const Step& next = steps[at[stream]];
    return next.kind != StepKind::await || recorded[next.index];
  };
  while (true) {
    const bool first = can_go_on(0), second = can_go_on(1);
    if (first && second) return;
    if (!first && !second) break;
    const size_t stream = first ? 0 : 1;
    turns += stream != last;
    last = stream;
    const Step& step = steps_of(stream)[at[stream]++];
    if (step.kind == StepKind::record) recorded[step.index] = true;
    if (!is_event(step)) chain.push_back(step);
  }
  const bool is_whole = at[0] == program.streams[0].steps.size() && at[1] == nccl.size();
  if (!is_whole || (turns > 2 && !are_by_language)) return;
  program.streams[0].steps = std::move(chain);
  program.streams.pop_back();
  program.num_events = 0;
}

}  // namespace

void put_events(const Plan& plan, std::vector<RankProgram>& programs) {
  EventPlacement(plan, programs).run();
  for (RankProgram& program : programs) chain_streams(plan, program);
}

}  // namespace stretto::cuda
