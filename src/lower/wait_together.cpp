// wait_together: every tile waits for the rows of all tiles that the lanes begin with it.
//
// Tiles of one wave that begin together read the same blocks of B at the same time, so that B comes
// out of memory once. Lanes that rows have kept waiting stay behind the others from then on: each
// reads B by itself, and where it does not fit into the L2 cache tiles take a fifth to a third
// longer (docs/notes/in-step.md). Waits that are added can make no plan wrong; that none of them is
// for what the lane itself has to do first is for the check to prove, as ever.
#include <algorithm>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "lower/lowering.h"

namespace stretto {
namespace {

// A GPU's task has at most so many waits. The tiles of a wave with more, which has many rows of
// tiles that many lanes push, begin as they can: out of step rather than not at all.
constexpr size_t kMostWaits = 255;

// The tiles that lanes begin together.
struct Wave {
  std::vector<Instr> waits;  // for each signal once
  size_t later = 0;          // waits of a tile behind its first task, the most of all lanes

  bool is_shared() const { return waits.size() + later <= kMostWaits; }
};

// What a rank's signals have to reach.
class Amounts {
 public:
  explicit Amounts(const Plan& plan) {
    size_t count = 0;
    for (const SignalArray& signals : plan.signals) {
      first_.push_back(count);
      count += static_cast<size_t>(signals.count);
    }
    amounts_.resize(count);
  }
  void clear() { std::fill(amounts_.begin(), amounts_.end(), 0); }
  // False: that much was there before.
  bool raise(const Instr& wait) {
    int64_t& amount = amounts_[first_[wait.signal.array] + static_cast<size_t>(wait.signal.index)];
    return wait.amount > std::exchange(amount, std::max(amount, wait.amount));
  }

 private:
  std::vector<size_t> first_;  // by array
  std::vector<int64_t> amounts_;
};

// Calls begin(instrs before the tile's first task) and go_on(instr) for all others of a lane.
// Where the K of a tile is cut, its tasks follow each other.
template <typename Begin, typename GoOn>
void for_each_tile(const std::vector<Instr>& instrs, const Begin& begin, const GoOn& go_on) {
  int32_t tile = -1;
  size_t waits = 0;  // directly before `at`
  for (size_t at = 0; at < instrs.size(); ++at) {
    const Instr& instr = instrs[at];
    if (instr.op == Opcode::wait && instr.lag == 0) {
      ++waits;
      continue;
    }
    const std::span<const Instr> before(instrs.data() + at - waits, waits);
    if (instr.op == Opcode::gemm && instr.tile != tile) {
      tile = instr.tile;
      begin(before);
    } else {
      for (const Instr& wait : before) go_on(wait);
    }
    go_on(instr);
    waits = 0;
  }
  for (size_t at = instrs.size() - waits; at < instrs.size(); ++at) go_on(instrs[at]);
}

std::vector<Wave> waves_of(std::span<const Lane> lanes) {
  std::vector<Wave> waves;
  for (const Lane& lane : lanes) {
    size_t begun = 0, later = 0;
    for_each_tile(
        lane.instrs,
        [&](std::span<const Instr> waits) {
          if (begun == waves.size()) waves.emplace_back();
          std::vector<Instr>& of_wave = waves[begun++].waits;
          of_wave.insert(of_wave.end(), waits.begin(), waits.end());
          later = 0;
        },
        [&](const Instr& instr) {
          if (instr.op != Opcode::wait || begun == 0) return;
          waves[begun - 1].later = std::max(waves[begun - 1].later, ++later);
        });
  }
  for (Wave& wave : waves) {
    const auto before = [](const Instr& a, const Instr& b) {
      return std::tuple(a.signal.array, a.signal.index, -a.amount) <
             std::tuple(b.signal.array, b.signal.index, -b.amount);
    };
    const auto same = [](const Instr& a, const Instr& b) { return a.signal == b.signal; };
    std::sort(wave.waits.begin(), wave.waits.end(), before);
    wave.waits.erase(std::unique(wave.waits.begin(), wave.waits.end(), same), wave.waits.end());
  }
  return waves;
}

// The compute lanes of one rank.
void share_waits(std::span<Lane> lanes, Amounts& awaited) {
  const std::vector<Wave> waves = waves_of(lanes);
  for (Lane& lane : lanes) {
    std::vector<Instr> instrs;
    instrs.reserve(lane.instrs.size());
    awaited.clear();
    size_t begun = 0;
    for_each_tile(
        lane.instrs,
        [&](std::span<const Instr> own) {
          const Wave& wave = waves[begun++];
          for (const Instr& wait : wave.is_shared() ? std::span(wave.waits) : own) {
            if (awaited.raise(wait)) instrs.push_back(wait);
          }
        },
        [&](const Instr& instr) {
          const bool is_wait = instr.op == Opcode::wait && instr.lag == 0;
          if (!is_wait || awaited.raise(instr)) instrs.push_back(instr);
        });
    lane.instrs = std::move(instrs);
  }
}

}  // namespace

void wait_together(Draft& draft) {
  const Lowering& state = lowering(draft);
  if (state.schedule.start != Start::wave || state.pattern != Pattern::push_gather) return;
  std::vector<Lane>& lanes = draft.plan.lanes;
  Amounts awaited(draft.plan);
  const auto begins_rank = [&](size_t i) {
    return lanes[i].kind == LaneKind::compute && lanes[i].index == 0;
  };
  for (size_t first = 0; first < lanes.size(); ++first) {
    if (!begins_rank(first)) continue;
    size_t last = first + 1;
    while (last < lanes.size() && lanes[last].kind == LaneKind::compute && !begins_rank(last)) {
      ++last;
    }
    share_waits(std::span(lanes).subspan(first, last - first), awaited);
  }
}

}  // namespace stretto
