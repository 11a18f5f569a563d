#include "check/counters.h"

#include <fmt/format.h>

#include <algorithm>

#include "check/wording.h"
#include "core/radix_sort.h"
#include "stretto/error.h"

namespace stretto::checker {
namespace {

// Keeps every sum over the runs of a plan within 64 bits.
constexpr int64_t kMaxTotal = int64_t{1} << 48;

// An instruction waits for a counter, or notifies it.
struct Use {
  uint64_t counter = 0;  // array, index and rank in one word
  uint32_t instr = 0, lane = 0;
};

uint64_t key(const Lane& lane, const Instr& instr) {
  const uint16_t rank = instr.op == Opcode::notify ? instr.rank : lane.rank;
  return uint64_t{instr.signal.array} << 48 |
         uint64_t{static_cast<uint32_t>(instr.signal.index)} << 16 | rank;
}

// Counter by counter; those of one in the order of lanes.
std::vector<Use> find_uses(const Plan& plan, const InstrIndex& index) {
  std::vector<Use> uses;
  uses.reserve(index.size());
  for (uint32_t lane = 0; lane < plan.lanes.size(); ++lane) {
    const std::vector<Instr>& instrs = plan.lanes[lane].instrs;
    for (uint32_t pos = 0; pos < instrs.size(); ++pos) {
      const Instr& instr = instrs[pos];
      if (!instr.is_sync()) continue;
      uses.push_back({key(plan.lanes[lane], instr), index.of(lane, pos), lane});
    }
  }
  radix_sort(uses, [](const Use& use) { return use.counter; });
  return uses;
}

std::vector<InstrRef> first_notifies(const Counters& counters, const Counter& counter) {
  std::vector<InstrRef> notifies;
  for (const Share& share : counters.shares(counter)) {
    for (const Note& note : counters.notes(share)) {
      if (notifies.size() == kMostNamed) return notifies;
      notifies.push_back({share.lane, note.pos});
    }
  }
  return notifies;
}

}  // namespace

Counters::Counters(const Plan& plan, const InstrIndex& index) : of_(index.size(), 0) {
  const std::vector<Use> uses = find_uses(plan, index);
  const auto instr_of = [&](const Use& use) {
    return &plan.lanes[use.lane].instrs[use.instr - index.of(use.lane, 0)];
  };
  const auto is_first = [&](size_t i) { return i == 0 || uses[i].counter != uses[i - 1].counter; };
  size_t count = 0;
  for (size_t i = 0; i < uses.size(); ++i) count += is_first(i);
  counters_.reserve(count);
  // Neighbours are of different lanes: what comes later is asked for ahead.
  constexpr size_t kAhead = 24;
  for (size_t i = 0; i < uses.size(); ++i) {
    if (i + kAhead < uses.size()) __builtin_prefetch(instr_of(uses[i + kAhead]));
    const Use& use = uses[i];
    const Instr& instr = *instr_of(use);
    if (is_first(i)) {
      Counter counter;
      counter.signal = instr.signal;
      counter.rank = static_cast<uint16_t>(use.counter);
      counter.copies = plan.signals[instr.signal.array].copies;
      counter.first_share = static_cast<uint32_t>(shares_.size());
      counter.first_wait = static_cast<uint32_t>(waits_.size());
      counters_.push_back(counter);
    }
    of_[use.instr] = static_cast<uint32_t>(counters_.size() - 1);
    Counter& counter = counters_.back();
    if (instr.op == Opcode::wait) {
      waits_.push_back(use.instr);
      ++counter.num_waits;
      counter.most_awaited = std::max(counter.most_awaited, instr.amount);
      continue;
    }
    const InstrRef ref{use.lane, use.instr - index.of(use.lane, 0)};
    if (counter.num_shares == 0 || shares_.back().lane != use.lane) {
      shares_.push_back({use.lane, 0, static_cast<uint32_t>(notes_.size()), 0});
      ++counter.num_shares;
    }
    if (instr.amount > kMaxTotal - counter.total) {
      throw UsageError(
          fmt::format("{} makes one run add more than {} to a counter", at(plan, ref), kMaxTotal));
    }
    Share& share = shares_.back();
    share.sum += instr.amount;
    ++share.num_notes;
    notes_.push_back({ref.pos, share.sum});
    counter.total += instr.amount;
  }
}

bool Counters::is_for_all(const Counter& counter, uint32_t lane, int64_t amount) const {
  if (amount != counter.total) return false;
  const std::span<const Share> of_it = shares(counter);
  const auto own = std::lower_bound(of_it.begin(), of_it.end(), lane,
                                    [](const Share& s, uint32_t want) { return s.lane < want; });
  return own == of_it.end() || own->lane != lane;
}

void check_thresholds(const Plan& plan, const InstrIndex& index, const Counters& counters,
                      Findings& findings) {
  for (uint32_t c = 0; c < counters.size(); ++c) {
    const Counter& counter = counters[c];
    if (counter.most_awaited <= counter.total) continue;
    for (uint32_t wait : counters.waits(counter)) {
      const InstrRef ref = index.ref(wait);
      const Instr& instr = plan.lanes[ref.lane].instrs[ref.pos];
      if (instr.amount <= counter.total) continue;
      findings.add(DiagnosticKind::unreachable_threshold, c, [&] {
        Diagnostic d;
        d.where = ref;
        d.signal = name(plan, counter);
        if (counter.total == 0) d.signals = counter.signal.array;
        d.also = first_notifies(counters, counter);
        d.message =
            counter.total == 0
                ? fmt::format("{} can never pass: no lane notifies {}", at(plan, ref), d.signal)
                : fmt::format("{} asks for too much: one run notifies {} {} in all", at(plan, ref),
                              d.signal, counted(counter.total, "time"));
        d.hint = counter.total == 0 ? fmt::format("some lane should notify {}", d.signal)
                                    : fmt::format("wait for at most {}, or notify {} more",
                                                  counter.total, instr.amount - counter.total);
        return d;
      });
    }
  }
}

}  // namespace stretto::checker
