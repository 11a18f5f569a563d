// Which slot of GPU memory a call's addresses take.
#include "calls/call_slots.h"

#include <gtest/gtest.h>

namespace stretto::runtime {
namespace {

TEST(CallSlots, KnownCallsHaveTheirsAndTheLongestUnaskedGivesWay) {
  CallSlots slots;
  slots.add(2);
  const auto first = slots.find({1}, false), second = slots.find({2}, false);
  ASSERT_TRUE(first && second);
  EXPECT_TRUE(first->is_new && second->is_new);
  EXPECT_FALSE(first->had_other || second->had_other);
  EXPECT_NE(first->slot, second->slot);
  const auto again = slots.find({1}, false);
  EXPECT_EQ(again->slot, first->slot);
  EXPECT_FALSE(again->is_new);
  const auto third = slots.find({3}, false);
  EXPECT_EQ(third->slot, second->slot);
  EXPECT_TRUE(third->is_new && third->had_other);
  EXPECT_TRUE(slots.find({2}, false)->is_new);
}

TEST(CallSlots, WhatAGraphHasStays) {
  CallSlots slots;
  slots.add(2);
  const auto captured = slots.find({1}, true);
  for (const uint64_t call : {2, 3, 4}) {
    EXPECT_NE(slots.find({call}, false)->slot, captured->slot) << call;
  }
  EXPECT_FALSE(slots.find({1}, false)->is_new);
  // What was seen before its capture stays from there on.
  EXPECT_FALSE(slots.find({4}, true)->is_new);
  EXPECT_FALSE(slots.find({5}, false).has_value());
  EXPECT_FALSE(slots.find({5}, true).has_value());
  slots.add(1);
  EXPECT_TRUE(slots.find({5}, true)->is_new);
}

// Graphs of one plan with tensors of their own, launched in turn, whatever calls come between.
TEST(CallSlots, EachGraphKeepsItsOwn) {
  CallSlots slots;
  slots.add(3);
  const size_t first = slots.find({1}, true)->slot, second = slots.find({2}, true)->slot;
  EXPECT_NE(first, second);
  for (uint64_t call = 3; call < 20; ++call) {
    const auto eager = slots.find({call}, false);
    ASSERT_TRUE(eager);
    EXPECT_TRUE(eager->slot != first && eager->slot != second);
  }
  // Calls with a graph's tensors share what nobody writes again.
  EXPECT_EQ(slots.find({2}, false)->slot, second);
  EXPECT_FALSE(slots.find({1}, true)->is_new);
}

// Runs that were enqueued before may still read what an earlier call left, and a copy for a graph
// is in the order of no stream.
TEST(CallSlots, AGraphTakesNoSlotOfAnother) {
  CallSlots slots;
  slots.add(1);
  slots.find({1}, false);
  EXPECT_FALSE(slots.find({2}, true).has_value());
  EXPECT_TRUE(slots.find({2}, false)->had_other);
}

// The host does not wait for a copy that is still to be made.
TEST(CallSlots, ASlotThatMayNotBeWrittenIsNotTaken) {
  CallSlots slots;
  slots.add(1);
  slots.find({1}, false);
  EXPECT_FALSE(slots.find({2}, false, [](size_t) { return false; }).has_value());
  EXPECT_FALSE(slots.find({1}, false)->is_new);
}

TEST(CallSlots, WhatCouldNotBeWrittenIsNotFoundAgain) {
  for (const bool is_captured : {false, true}) {
    CallSlots slots;
    slots.add(2);
    const size_t slot = slots.find({1}, is_captured)->slot;
    slots.forget(slot);
    EXPECT_TRUE(slots.find({1}, false)->is_new);
    EXPECT_TRUE(slots.find({2}, false)->is_new);
    EXPECT_EQ(slots.size(), 2u);
  }
}

}  // namespace
}  // namespace stretto::runtime
