// How a block of each rank of a team meets the others', and that all make the same call.
//
// Block b has a row of words for each rank, which that rank writes. Its first says how often the
// two have met, and below that in which team and for what; the next two say, of calls that move
// data, how much and from whom, by turns. A rank is one meeting ahead of another at most: so one of
// two that meet for different things sees it, and what it compares has not been written over.
#pragma once

#include "stretto/device/lang/team.h"

namespace stretto::device {

// What ranks meet for.
enum class Meet : uint8 { kSync, kBarrier, kBroadcast, kFcollect };

struct MeetCall {
  Meet what;
  uint64 num_bytes;  // of each rank that gives data
  int root;          // its number in the team, or 0

  STRETTO_HOST_DEVICE bool moves_data() const { return what >= Meet::kBroadcast; }
  // Exact: there are at most 64 ranks.
  STRETTO_HOST_DEVICE uint64 word() const {
    return num_bytes << 6 | static_cast<uint64>(static_cast<uint32>(root) & 63u);
  }
};

// The rest of a word that counts meetings.
inline constexpr int kMarkBits = kTeamBits + 2;
STRETTO_HOST_DEVICE uint64 mark_of(const Team& team, Meet what) {
  return static_cast<uint64>(what) << kTeamBits | mark_of(team);
}
STRETTO_HOST_DEVICE Meet meet_of_mark(uint64 mark) {
  return static_cast<Meet>(mark >> kTeamBits & 3);
}

STRETTO_HOST_DEVICE const char* meet_name(Meet what) {
  switch (what) {
    case Meet::kSync:
      return "sync";
    case Meet::kBarrier:
      return "barrier";
    case Meet::kBroadcast:
      return "broadcast";
    case Meet::kFcollect:
      return "fcollect";
  }
  return "";
}

// The threads that call, of the block.
template <class Block>
class Callers {
 public:
  STRETTO_PRIMITIVE Callers(Block& block, Group group) : block_(block), group_(group) {}

  STRETTO_PRIMITIVE int first() const {
    if (group_ == Group::kThread) return 0;
    const int thread = block_.thread_idx();
    return group_ == Group::kBlock ? thread : thread % block_.warp_size();
  }
  STRETTO_PRIMITIVE int step() const {
    if (group_ == Group::kThread) return 1;
    const int threads = block_.num_threads();
    return group_ == Group::kBlock || threads < block_.warp_size() ? threads : block_.warp_size();
  }
  STRETTO_PRIMITIVE void sync(Where where) {
    if (group_ == Group::kBlock) block_.sync(where);
    if (group_ == Group::kWarp) block_.sync_warp(where);
  }
  STRETTO_PRIMITIVE bool sync_or(bool value, Where where) {
    if (group_ == Group::kBlock) return block_.sync_or(value, where);
    return group_ == Group::kWarp ? block_.sync_warp_or(value, where) : value;
  }

 private:
  Block& block_;
  Group group_;
};

// Of what moves data.
template <class Block, class Word>
STRETTO_PRIMITIVE bool same_call(Block& block, const MeetCall& call, int pe, Word said,
                                 Where where) {
  const uint64 theirs = block.load(said, Order::kRelaxed, Scope::kSystem, where);
  const uint64 own = call.word();
  if (theirs == own) return true;
  const bool roots = theirs % 64 != own % 64;
  block.disagree(pe, roots ? "pe_root" : "num_bytes", 0, roots ? own % 64 : own >> 6,
                 roots ? theirs % 64 : theirs >> 6, where);
  return false;
}

// All threads of `group` call it; the team's size is known. False: some rank has not come, or calls
// otherwise.
template <class Block>
STRETTO_PRIMITIVE bool meet(Block& block, Group group, const Team& team, const MeetCall& call,
                            Where where) {
  Callers<Block> callers(block, group);
  const int first = callers.first();
  const int step = callers.step();
  const int me = number_in(team, block.rank());
  if (!block.enter(team, me, group, first == 0, where)) return false;
  const int ranks = block.num_ranks();
  auto met = block.sync_epochs() + block.block_idx() * ranks;
  auto rows = block.sync_signals() + block.block_idx() * ranks * Block::kMeetWords;
  auto own_row = rows + block.rank() * Block::kMeetWords;
  const uint64 mark = mark_of(team, call.what);
  const bool completes = call.what != Meet::kSync;
  const auto other = [&](int i) { return pe_of(team, (me + 1 + i) % team.size); };
  const auto meeting = [&](int pe) {
    return block.load(met + pe, Order::kRelaxed, Scope::kBlock, where) + 1;
  };
  callers.sync(where);
  if (call.moves_data()) {
    for (int i = first; i < team.size - 1; i += step) {
      const int pe = other(i);
      block.signal(own_row + (1 + meeting(pe) % 2), call.word(), SignalOp::kSet, pe, where,
                   Order::kRelaxed);
    }
  }
  // One fence for all signals of a thread, and none in threads that have none.
  if (completes && first < team.size) block.quiet(where);
  for (int i = first; i < team.size - 1; i += step) {
    const int pe = other(i);
    block.signal(own_row, meeting(pe) << kMarkBits | mark, SignalOp::kSet, pe, where,
                 completes ? Order::kRelaxed : Order::kRelease);
  }
  bool failed = false;
  for (int i = first; i < team.size - 1; i += step) {
    const int pe = other(i);
    const uint64 now = meeting(pe);
    auto row = rows + pe * Block::kMeetWords;
    uint64 seen = 0;
    failed = !block.wait_value(row, Compare::kGe, now << kMarkBits, seen, where, pe) || failed;
    const uint64 theirs = seen - (now << kMarkBits);
    if (!failed && seen >> kMarkBits == now && theirs != mark) {
      block.meets_other(team, pe, mark, theirs, where);
      failed = true;
    }
    // A rank that is ahead has compared its mark with this one's, so it has said this too.
    if (!failed && call.moves_data()) {
      failed = !same_call(block, call, pe, row + (1 + now % 2), where);
    }
    block.store(met + pe, now, Order::kRelaxed, Scope::kBlock, where);
  }
  failed = callers.sync_or(failed, where);
  block.leave();
  return !failed;
}

}  // namespace stretto::device
