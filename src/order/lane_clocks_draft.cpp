// A clock in the making: it begins as another, learns from more of them, and is kept.
#include <algorithm>
#include <utility>

#include "stretto/lane_clocks.h"

namespace stretto {

void LaneClocks::begin(const Clock& from) {
  const std::span<const uint16_t> runs = runs_of(from);
  draft_.runs.assign(runs.begin(), runs.end());
  draft_.blocks = from.blocks;
  draft_.runs_learnt = {};
  draft_.newest_run = from.newest_run;
  draft_.first_own = blocks_.count();
}

void LaneClocks::learn_runs(View from) {
  const uint32_t set = clocks_[from.clock].runs;
  if (set == 0) return;  // none
  // Clocks share these sets, so the same comes again and again.
  if (const View same{set, from.rank}; std::exchange(draft_.runs_learnt, same) == same) return;
  const std::span<const uint16_t> runs = runs_of(clocks_[from.clock]);
  const auto learn = [](std::span<uint16_t> ours, std::span<const uint16_t> theirs) {
    for (size_t i = 0; i < ours.size(); ++i) ours[i] = std::max(ours[i], theirs[i]);
  };
  // Rank 0's counts are those of `from.rank`, and the last ranks' come round to the front.
  const size_t behind = ranks_ - from.rank;
  learn(std::span(draft_.runs).subspan(from.rank), runs.first(behind));
  learn(std::span(draft_.runs).first(from.rank), runs.subspan(behind));
}

void LaneClocks::make_own(BlockRef& ref) {
  if (ref.block < draft_.first_own) ref.block = blocks_.add_copy(ref.block);
}

void LaneClocks::set_entry(Event event) {
  const Slot slot = slots_[event.lane];
  auto at = std::lower_bound(draft_.blocks.begin(), draft_.blocks.end(), slot.block,
                             [](const BlockRef& r, uint32_t n) { return r.number < n; });
  if (at == draft_.blocks.end() || at->number != slot.block) {
    at = draft_.blocks.insert(at, {slot.block, blocks_.add()});
  }
  const uint32_t run = run_of(event);
  draft_.newest_run = std::max(draft_.newest_run, run);
  if (blocks_.seq(at->block, slot.lane) >= event.seq) return;
  make_own(*at);
  blocks_.set(at->block, slot.lane, event.seq, run);
}

void LaneClocks::find_oldest_run() {
  uint16_t oldest = UINT16_MAX;
  for (const uint16_t run : draft_.runs) oldest = std::min(oldest, run);
  draft_.oldest_run = oldest;
}

// Blocks of runs that are known to have ended say nothing that the counts of runs do not.
void LaneClocks::drop_ended() {
  std::erase_if(draft_.blocks, [&](const BlockRef& ref) {
    return draft_.runs[block_rank_[ref.number]] > blocks_.newest_run(ref.block);
  });
}

void LaneClocks::merge(View view) {
  const Clock& from = clocks_[view.clock];
  // Events of runs known to have ended need no entries; the caller drops those that remain.
  if (from.blocks.empty() || from.newest_run < draft_.oldest_run) return;
  draft_.newest_run = std::max(draft_.newest_run, from.newest_run);
  merged_.clear();
  auto ours = draft_.blocks.begin();
  const auto add = [&](const BlockRef& theirs) {
    while (ours != draft_.blocks.end() && ours->number < theirs.number) merged_.push_back(*ours++);
    if (ours == draft_.blocks.end() || ours->number != theirs.number) {
      merged_.push_back(theirs);
      return;
    }
    BlockRef both = *ours++;
    if (both.block != theirs.block) {
      make_own(both);
      blocks_.learn(both.block, theirs.block);
    }
    merged_.push_back(both);
  };
  // Rank 0's blocks are those of `view.rank`, and the last ranks' come round to the front.
  const uint32_t up = rank_blocks_[view.rank], down = rank_blocks_.back() - up;
  auto wrap = from.blocks.begin();
  while (wrap != from.blocks.end() && wrap->number < down) ++wrap;
  for (auto ref = wrap; ref != from.blocks.end(); ++ref) add({ref->number - down, ref->block});
  for (auto ref = from.blocks.begin(); ref != wrap; ++ref) add({ref->number + up, ref->block});
  merged_.insert(merged_.end(), ours, draft_.blocks.end());
  std::swap(draft_.blocks, merged_);
}

uint32_t LaneClocks::keep(uint32_t runs_like) {
  // Those who have heard the same make the same blocks.
  own_.clear();
  for (BlockRef& ref : draft_.blocks) {
    if (ref.block >= draft_.first_own) own_.push_back(&ref);
  }
  std::sort(own_.begin(), own_.end(),
            [](const BlockRef* a, const BlockRef* b) { return a->block < b->block; });
  uint32_t next = draft_.first_own;
  for (BlockRef* ref : own_) {
    ref->block = blocks_.keep(ref->block, next);
    if (ref->block == next) ++next;
  }
  blocks_.drop_from(next);

  Clock clock;
  clock.runs = runs_like;
  if (!std::equal(draft_.runs.begin(), draft_.runs.end(),
                  runs_.begin() + static_cast<ptrdiff_t>(runs_like * ranks_))) {
    clock.runs = static_cast<uint32_t>(runs_.size() / ranks_);
    runs_.insert(runs_.end(), draft_.runs.begin(), draft_.runs.end());
  }
  clock.blocks.assign(draft_.blocks.begin(), draft_.blocks.end());
  clock.newest_run = draft_.newest_run;
  clocks_.push_back(std::move(clock));
  return static_cast<uint32_t>(clocks_.size() - 1);
}

}  // namespace stretto
