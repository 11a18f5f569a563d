// wait_together: every tile waits for the rows of all tiles that the lanes begin with it.
//
// Tiles of one wave that begin together read the same blocks of B at the same time, so that B comes
// out of memory once. Lanes that rows have kept waiting stay behind the others from then on: each
// reads B by itself, and where it does not fit into the L2 cache tiles take a fifth to a third
// longer (docs/notes/in-step.md). Waits that are added can make no plan wrong; that none of them is
// for what the lane itself has to do first is for the check to prove, as ever.
#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "lower/lowering.h"
#include "sync/lane_writer.h"

namespace stretto {
namespace {

// What a counter has to reach, by signal.
using Amounts = std::map<std::pair<uint16_t, int32_t>, int64_t>;

// A GPU's task has at most so many waits. A wave with more has many rows of tiles, so few columns:
// its blocks of B fit into the cache, and its tiles begin as they can.
constexpr size_t kMostWaits = 255;

// The tiles that lanes begin together.
struct Wave {
  Amounts shared;
  size_t later = 0;  // waits of a tile behind its first task, the most of all lanes

  bool fits() const { return shared.size() + later <= kMostWaits; }
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

void raise(Amounts& amounts, const Instr& wait) {
  int64_t& amount = amounts[{wait.signal.array, wait.signal.index}];
  amount = std::max(amount, wait.amount);
}

// The compute lanes of one rank.
void share_waits(std::span<Lane> lanes) {
  std::vector<Wave> waves;
  for (const Lane& lane : lanes) {
    size_t begun = 0, later = 0;
    for_each_tile(
        lane.instrs,
        [&](std::span<const Instr> waits) {
          if (begun == waves.size()) waves.emplace_back();
          for (const Instr& wait : waits) raise(waves[begun].shared, wait);
          ++begun;
          later = 0;
        },
        [&](const Instr& instr) {
          if (instr.op != Opcode::wait || begun == 0) return;
          waves[begun - 1].later = std::max(waves[begun - 1].later, ++later);
        });
  }
  for (Lane& lane : lanes) {
    std::vector<Instr> instrs;
    Amounts awaited;
    const auto is_new = [&](std::pair<uint16_t, int32_t> signal, int64_t amount) {
      int64_t& before = awaited[signal];
      return amount > std::exchange(before, std::max(before, amount));
    };
    size_t begun = 0;
    for_each_tile(
        lane.instrs,
        [&](std::span<const Instr> own) {
          const Wave& wave = waves[begun++];
          Amounts amounts;
          if (!wave.fits()) {
            for (const Instr& wait : own) raise(amounts, wait);
          }
          for (const auto& [signal, amount] : wave.fits() ? wave.shared : amounts) {
            if (is_new(signal, amount)) {
              append_wait(instrs, {signal.first, signal.second}, amount, 0);
            }
          }
        },
        [&](const Instr& instr) {
          const bool is_wait = instr.op == Opcode::wait && instr.lag == 0;
          if (is_wait && !is_new({instr.signal.array, instr.signal.index}, instr.amount)) return;
          instrs.push_back(instr);
        });
    lane.instrs = std::move(instrs);
  }
}

}  // namespace

void wait_together(Draft& draft) {
  const Lowering& state = lowering(draft);
  if (state.schedule.start != Start::wave || state.pattern != Pattern::push_gather) return;
  std::vector<Lane>& lanes = draft.plan.lanes;
  const auto begins_rank = [&](size_t i) {
    return lanes[i].kind == LaneKind::compute && lanes[i].index == 0;
  };
  for (size_t first = 0; first < lanes.size(); ++first) {
    if (!begins_rank(first)) continue;
    size_t last = first + 1;
    while (last < lanes.size() && lanes[last].kind == LaneKind::compute && !begins_rank(last)) {
      ++last;
    }
    share_waits(std::span(lanes).subspan(first, last - first));
  }
}

}  // namespace stretto
