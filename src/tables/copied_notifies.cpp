#include "tables/copied_notifies.h"

#include <algorithm>
#include <tuple>

namespace stretto::cuda {
namespace {

constexpr uint64_t kWordBytes = 8;

DevicePtr address_of(const CopiedNotify& notify, std::span<const DevicePtr> counters, int set) {
  const uint64_t instance = static_cast<uint64_t>(set) % notify.copies;
  return counters[notify.rank] +
         (notify.signal + instance * notify.copy_step) * device::kSignalStride * kWordBytes;
}

}  // namespace

CopiedNotifies::CopiedNotifies(const Plan& plan, const SignalLayout& signals) {
  using Counter = std::tuple<uint16_t, uint16_t, int32_t>;  // rank, array, index
  const auto counter_of = [](const Instr& notify) {
    return Counter(notify.rank, notify.signal.array, notify.signal.index);
  };
  constexpr uint32_t kSeveral = ~0u;
  struct Use {
    uint32_t lane;       // that notifies
    uint64_t value = 0;  // so far
  };
  std::map<Counter, Use> uses;
  for (uint32_t l = 0; l < plan.lanes.size(); ++l) {
    if (plan.lanes[l].kind != LaneKind::copy) continue;
    for (const Instr& instr : plan.lanes[l].instrs) {
      if (instr.op == Opcode::notify) uses.try_emplace(counter_of(instr), Use{l});
    }
  }
  if (uses.empty()) return;
  for (uint32_t l = 0; l < plan.lanes.size(); ++l) {
    for (const Instr& instr : plan.lanes[l].instrs) {
      if (instr.op != Opcode::notify) continue;
      const auto use = uses.find(counter_of(instr));
      if (use != uses.end() && use->second.lane != l) use->second.lane = kSeveral;
    }
  }
  const int sets = num_sets(plan);
  for (uint32_t l = 0; l < plan.lanes.size(); ++l) {
    if (plan.lanes[l].kind != LaneKind::copy) continue;
    const std::vector<Instr>& instrs = plan.lanes[l].instrs;
    for (uint32_t i = 0; i < instrs.size(); ++i) {
      if (instrs[i].op != Opcode::notify) continue;
      Use& use = uses.at(counter_of(instrs[i]));
      const SignalArray& array = plan.signals[instrs[i].signal.array];
      const uint32_t signal = signals.index_of(instrs[i].signal);
      if (use.lane != l || sets % array.copies != 0 ||
          signals.is_relative(instrs[i].rank, signal)) {
        continue;
      }
      use.value += static_cast<uint64_t>(instrs[i].amount);
      all_.emplace_hint(
          all_.end(), std::pair(l, i),
          CopiedNotify{instrs[i].rank, array.copies, signal, static_cast<uint32_t>(array.count),
                       use.value, signals.per_run(instrs[i].rank, signal)});
    }
  }
}

const CopiedNotify* CopiedNotifies::of(uint32_t lane, uint32_t position) const {
  const auto found = all_.find({lane, position});
  return found == all_.end() ? nullptr : &found->second;
}

std::vector<CopiedNotify> last_of_each_counter(std::span<const CopiedNotify> notifies) {
  std::vector<CopiedNotify> last;
  for (const CopiedNotify& notify : notifies) {
    const auto same = std::find_if(last.begin(), last.end(), [&](const CopiedNotify& earlier) {
      return earlier.same_counter(notify);
    });
    if (same == last.end()) {
      last.push_back(notify);
    } else {
      same->value = notify.value;
    }
  }
  return last;
}

std::vector<Transfer> transfers_of(std::span<const CopiedNotify> notifies, DevicePtr words,
                                   std::span<const DevicePtr> counters, int set) {
  std::vector<Transfer> transfers;
  uint16_t rank = 0;  // of the last one's counters
  for (size_t i = 0; i < notifies.size(); ++i) {
    const DevicePtr to = address_of(notifies[i], counters, set);
    Transfer* last = transfers.empty() || rank != notifies[i].rank ? nullptr : &transfers.back();
    if (last != nullptr && to > last->to) {
      if (last->rows == 1) last->to_pitch = to - last->to;
      if (to == last->to + last->rows * last->to_pitch) {
        ++last->rows;
        continue;
      }
    }
    transfers.push_back({words + i * kWordBytes, to, kWordBytes, kWordBytes, kWordBytes, 1});
    rank = notifies[i].rank;
  }
  return transfers;
}

}  // namespace stretto::cuda
