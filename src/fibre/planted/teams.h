// Teams that are mixed up with each other, with the world, or with who is in them.
#pragma once

#include <array>

#include "fibre/planted/planted.h"
#include "stretto/error.h"

namespace stretto::fibre {

using device::team_world;

// Members are `start`, `start + stride`, ... of the world.
inline Team split(device::Shmem<Block>& shmem, int start, int stride, int size) {
  Team team = device::team_invalid();
  shmem.team_split_strided(team_world(), start, stride, size, &team);
  return team;
}

// Rank 0 meets rank 1 and then rank 2, by one counter: whoever comes first is taken for the other.
inline void team_words_used_for_another(World& world, bool bug) {
  auto counter = world.symmetric<uint64>("counter", 1, 0);
  auto value = world.symmetric<uint64>("value", 3, 0);
  auto sum = world.local<uint64>("sum", 1, 0);
  world.launch(1, 1, [=](Block& block) {
    device::Shmem shmem(block);
    const int me = block.rank();
    if (me != 0) shmem.p(value.at(me) + me, uint64(me), 0);
    for (int other = 1; other <= 2; ++other) {
      if (me != 0 && me != other) continue;
      if (bug) {
        if (me != 0) shmem.signal_op(counter.at(me), 1, SignalOp::kAdd, 0);
        if (me == 0 && !shmem.signal_wait_until(counter.at(0), Compare::kGe, uint64(other))) return;
      } else if (!shmem.team_sync_block(split(shmem, 0, other, 2))) {
        return;
      }
      if (me != 0) continue;
      const uint64 seen = value.at(0)[other];
      sum.at(0)[0] += seen;
    }
  });
  if (world.run()) world.expect(sum.get(0, 0) == 3, "a value was not there yet");
}

// Rows and columns of a grid of ranks, in which one rank begins with its column.
inline void teams_met_in_another_order(World& world, bool bug) {
  world.launch([=](Block& block) {
    device::Shmem shmem(block);
    const int me = block.rank();
    const Team pair = split(shmem, 0, 1, 2);
    const std::array<Team, 2> teams = {team_world(), pair};
    const int first = bug && me == 1 ? 1 : 0;
    for (int i = 0; i < 2; ++i) {
      const Team& team = teams[size_t(first ^ i)];
      if (shmem.team_my_pe(team) >= 0 && !shmem.team_sync_block(team)) return;
    }
  });
  world.run();
}

// All ranks call what is the even ones' alone.
inline void collective_by_an_outsider(World& world, bool bug) {
  auto x = world.symmetric<uint64>("x", 1, 0);
  auto y = world.local<uint64>("y", 1, 7);
  world.launch([=](Block& block) {
    device::Shmem shmem(block);
    const int me = block.rank();
    const Team even{0, 2, (shmem.n_pes() + 1) / 2};
    if (!bug && shmem.team_my_pe(even) < 0) return;
    shmem.broadcastmem_block(even, x.at(me), y.at(me), 8, 0);
  });
  world.run();
}

// The root is number 1 of the world, which is number 0 of its team.
inline void root_numbered_by_the_world(World& world, bool bug) {
  auto x = world.symmetric<uint64>("x", 1, 0);
  auto own = world.local<uint64>("own", 1);
  for (int r = 0; r < world.shape().ranks; ++r) own.set(r, 0, uint64(100 + r));
  world.launch([=](Block& block) {
    device::Shmem shmem(block);
    const int me = block.rank();
    const Team odd = split(shmem, 1, 2, 2);
    if (shmem.team_my_pe(odd) < 0) return;
    const int root = bug ? 1 : shmem.team_translate_pe(team_world(), 1, odd);
    shmem.broadcastmem_block(odd, x.at(me), own.at(me), 8, root);
  });
  if (!world.run()) return;
  for (int r : {1, 3}) world.expect(x.get(r, 0) == 101, "not the root's value");
}

// Code of a team calls what is for all ranks.
inline void world_barrier_in_code_of_a_team(World& world, bool bug) {
  world.launch([=](Block& block) {
    device::Shmem shmem(block);
    const Team first_two = split(shmem, 0, 1, 2);
    if (shmem.team_my_pe(first_two) < 0) return;
    bug ? shmem.barrier_all_block() : shmem.barrier_block(first_two);
  });
  world.run();
}

inline std::vector<Planted> team_bugs() {
  const auto race = FindingKind::kRace;
  const Shape four{.ranks = 4, .threads = 4};
  return {
      {"team_words_used_for_another",
       "one barrier's counter for two groups",
       {race, FindingKind::kUnwritten},
       {.ranks = 3, .threads = 1},
       team_words_used_for_another,
       {.least_ranks = 3, .most_ranks = 3}},
      {"teams_met_in_another_order",
       "collectives of two communicators in another order",
       {FindingKind::kDisagreement},
       {.ranks = 3, .threads = 4},
       teams_met_in_another_order},
      {"collective_by_an_outsider",
       "a group's collective called by all ranks",
       {FindingKind::kWrongRank},
       {.ranks = 3, .threads = 4},
       collective_by_an_outsider},
      {"root_numbered_by_the_world",
       "global and group rank mixed up",
       {FindingKind::kMismatch},
       four,
       root_numbered_by_the_world,
       {.least_ranks = 4}},
      {"world_barrier_in_code_of_a_team",
       "default world assumed",
       {FindingKind::kDeadlock},
       {.ranks = 3, .threads = 4},
       world_barrier_in_code_of_a_team},
  };
}

}  // namespace stretto::fibre
