#include "emu/scheduler.h"

#include <gtest/gtest.h>

#include <set>

#include "emu/index_set.h"
#include "plans.h"

namespace stretto::emu {
namespace {

TEST(IndexSet, HoldsWhatItIsGiven) {
  IndexSet set(10);
  Random random(1);
  EXPECT_TRUE(set.empty());
  for (const uint32_t index : {3u, 7u, 3u, 9u}) set.insert(index);
  set.erase(7);
  set.erase(5);
  std::set<uint32_t> seen;
  for (int i = 0; i < 100; ++i) seen.insert(set.pick(random));
  EXPECT_EQ(seen, (std::set<uint32_t>{3, 9}));
  set.erase(9);
  set.erase(3);
  EXPECT_TRUE(set.empty());
}

TEST(Scheduler, MovesOnlyWhatCanMove) {
  const Plan plan = plan_of(reduce_scatter_by_slots());
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Scheduler scheduler(plan, seed);
    EXPECT_EQ(scheduler.next().kind, Move::Kind::none);
    scheduler.set_runnable(2, true);
    for (int i = 0; i < 100; ++i) {
      const Move move = scheduler.next();
      ASSERT_EQ(move.kind, Move::Kind::step);
      ASSERT_EQ(move.actor, 2u);
    }
    scheduler.set_runnable(2, false);
    scheduler.set_in_flight(1, true);
    const Move move = scheduler.next();
    EXPECT_EQ(move.kind, Move::Kind::deliver);
    EXPECT_EQ(move.actor, 1u);
    scheduler.set_in_flight(1, false);
    EXPECT_EQ(scheduler.next().kind, Move::Kind::none);
  }
}

// Nobody is left out for ever: whoever starves moves once the others cannot.
TEST(Scheduler, EveryActorMovesInTheEnd) {
  const Plan plan = plan_of(reduce_scatter_by_slots());
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Scheduler scheduler(plan, seed);
    const uint32_t actors = scheduler.caller_of(1) + 1;
    for (uint32_t actor = 0; actor < actors; ++actor) scheduler.set_runnable(actor, true);
    std::set<uint32_t> moved;
    for (Move move = scheduler.next(); move.kind != Move::Kind::none; move = scheduler.next()) {
      moved.insert(move.actor);
      scheduler.set_runnable(move.actor, false);
    }
    EXPECT_EQ(moved.size(), actors);
  }
}

// Some seeds let computing blocks starve, some the movers, some one of the ranks.
TEST(Scheduler, SeedsStarveDifferentActors) {
  const Plan plan = plan_of(reduce_scatter_by_slots());
  std::set<uint32_t> last;
  for (uint64_t seed = 0; seed < 16; ++seed) {
    Scheduler scheduler(plan, seed);
    for (uint32_t lane = 0; lane < 4; ++lane) scheduler.set_runnable(lane, true);
    uint32_t latest = 0;
    for (Move move = scheduler.next(); move.kind != Move::Kind::none; move = scheduler.next()) {
      latest = move.actor;
      scheduler.set_runnable(move.actor, false);
    }
    last.insert(latest);
  }
  EXPECT_EQ(last.size(), 4u);
}

}  // namespace
}  // namespace stretto::emu
