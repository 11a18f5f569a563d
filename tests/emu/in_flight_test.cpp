#include "emu/in_flight.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "plans.h"

namespace stretto::emu {
namespace {

// Lane 0 of the slots plan and its memory, without an execution around it.
struct World {
  explicit World(uint64_t seed)
      : plan(plan_of(reduce_scatter_by_slots())),
        memory(plan),
        signals(plan, 1),
        faults(plan),
        scheduler(plan, seed),
        in_flight(plan, memory, signals, faults, scheduler),
        counter(signals.counter({0, 0}, 1, 0)) {}

  Region rows(int begin, int end) { return {begin, end, 0, 6, *plan.find_buffer("slots"), 1}; }
  void write(const Region& region, uint16_t value) {
    Payload payload = Payload::make(region.rows(), region.cols(), 2);
    for (int64_t i = 0; i < region.elements(); ++i) {
      std::memcpy(payload.bytes.get() + i * 2, &value, 2);
    }
    in_flight.write({0, 0, 0}, region, payload, 0);
  }
  bool written(const Region& region) { return memory.examine(region, 0).count() == 0; }
  uint16_t value(int row) {
    uint16_t values[6];
    memory.read(rows(row, row + 1), 0, values);
    return values[0];
  }

  Plan plan;
  Memory memory;
  Signals signals;
  Faults faults;
  Scheduler scheduler;
  InFlight in_flight;
  size_t counter;
};

TEST(InFlight, NothingIsVisibleBeforeItIsDelivered) {
  World world(1);
  world.write(world.rows(0, 4), 7);
  EXPECT_FALSE(world.in_flight.empty(0));
  EXPECT_EQ(world.memory.examine(world.rows(0, 4), 0).never, 24);
  while (!world.in_flight.empty(0)) world.in_flight.deliver_some(0);
  EXPECT_TRUE(world.written(world.rows(0, 4)));
}

TEST(InFlight, NotifyComesAfterAllEarlierWritesOfItsLane) {
  bool overtaken = false, in_pieces = false;
  std::set<int> orders;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    World world(seed);
    world.write(world.rows(0, 2), 7);
    world.write(world.rows(2, 4), 8);
    world.in_flight.notify({0, 1, 0}, world.counter, 1);
    world.write(world.rows(4, 8), 9);
    int order = 0;
    while (!world.in_flight.empty(0)) {
      world.in_flight.deliver_some(0);
      if (world.signals.value(world.counter) > 0) {
        ASSERT_TRUE(world.written(world.rows(0, 4)));
      } else if (world.written(world.rows(4, 8))) {
        overtaken = true;
      }
      const int64_t missing = world.memory.examine(world.rows(4, 8), 0).count();
      in_pieces = in_pieces || (missing > 0 && missing < 24);
      if (order == 0 && world.written(world.rows(0, 2))) order = 1;
      if (order == 0 && world.written(world.rows(2, 4))) order = 2;
    }
    orders.insert(order);
    EXPECT_EQ(world.signals.value(world.counter), 1);
  }
  EXPECT_TRUE(overtaken);  // a write that comes after a notify is not bound by it
  EXPECT_TRUE(in_pieces);
  EXPECT_EQ(orders, (std::set<int>{1, 2}));
}

TEST(InFlight, WritesToOnePlaceKeepTheirOrder) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    World world(seed);
    world.write(world.rows(0, 3), 7);
    world.write(world.rows(2, 5), 8);
    world.write(world.rows(4, 6), 9);
    if (seed % 2) world.in_flight.deliver_overlapping(0, world.rows(5, 6));
    while (!world.in_flight.empty(0)) world.in_flight.deliver_some(0);
    EXPECT_EQ(world.value(1), 7);
    EXPECT_EQ(world.value(2), 8);
    EXPECT_EQ(world.value(3), 8);
    EXPECT_EQ(world.value(4), 9);
    EXPECT_EQ(world.value(5), 9);
  }
}

TEST(InFlight, NotifiesMayOvertakeEachOther) {
  std::set<bool> first;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    World world(seed);
    const size_t other = world.signals.counter({0, 0}, 0, 0);
    world.in_flight.notify({0, 0, 0}, world.counter, 1);
    world.in_flight.notify({0, 1, 0}, other, 1);
    world.in_flight.deliver_some(0);
    first.insert(world.signals.value(other) > 0);
  }
  EXPECT_EQ(first.size(), 2u);
}

TEST(InFlight, OwnReadsSeeOwnWrites) {
  World world(3);
  world.write(world.rows(0, 2), 7);
  world.write(world.rows(4, 6), 8);
  world.in_flight.deliver_overlapping(0, world.rows(1, 3));
  EXPECT_TRUE(world.written(world.rows(0, 2)));
  EXPECT_FALSE(world.written(world.rows(4, 6)));
}

}  // namespace
}  // namespace stretto::emu
