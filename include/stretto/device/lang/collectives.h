// Collectives of a team: who has data puts it to the others, and then they meet (Shmem has the
// contract). All threads of `group` call them; the team's size is known.
#pragma once

#include "stretto/device/lang/meeting.h"

namespace stretto::device {

// `num_bytes` of the root's, whose number in the team is `pe_root`.
template <class Block, class P, class Q>
STRETTO_PRIMITIVE bool broadcast_to_team(Block& block, Group group, const Team& team, P dest,
                                         Q source, uint64 num_bytes, int pe_root, Where where) {
  const int me = number_in(team, block.rank());
  if (me >= 0 && (pe_root < 0 || pe_root >= team.size)) {
    if (Callers<Block>(block, group).first() == 0) block.no_such_root(team, pe_root, where);
    return false;
  }
  for (int i = 1; me >= 0 && me == pe_root && i <= team.size; ++i) {
    block.put(dest, source, num_bytes, pe_of(team, (me + i) % team.size), group, true, where);
  }
  return meet(block, group, team, {Meet::kBroadcast, num_bytes, pe_root}, where);
}

// Every rank's `count` elements, in the team's order.
template <class T, class Block>
STRETTO_PRIMITIVE bool collect_from_team(Block& block, Group group, const Team& team,
                                         Ptr<Block, T> dest, Ptr<Block, T> source, uint64 count,
                                         Where where) {
  const int me = number_in(team, block.rank());
  const uint64 num_bytes = count * sizeof(T);
  for (int i = 1; me >= 0 && i <= team.size; ++i) {
    block.put(dest + count * static_cast<uint64>(me), source, num_bytes,
              pe_of(team, (me + i) % team.size), group, true, where);
  }
  return meet(block, group, team, {Meet::kFcollect, num_bytes, 0}, where);
}

}  // namespace stretto::device
