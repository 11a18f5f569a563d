#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sync/draft_builder.h"

namespace stretto {
namespace {

using Kind = LaneKind;
using enum Opcode;

TEST(PlaceSignals, AReaderWaitsForTheWriterOfItsRegionOnly) {
  DraftBuilder b(1, Sync::flag);
  const auto part = b.buffer("part", BufferRole::local), out = b.buffer("out", BufferRole::output);
  const auto c0 = b.lane(Kind::compute, 0, 0), c1 = b.lane(Kind::compute, 0, 1),
             m = b.lane(Kind::comm, 0, 0);
  b.task(c0, copy, {}, {rows(part, 0, 0, 16)});
  b.task(c1, copy, {}, {rows(part, 0, 16, 32)});
  b.task(m, copy, {rows(part, 0, 16, 20)}, {rows(out, 0, 16, 20)});
  EXPECT_EQ(b.placed(c0), "copy");
  EXPECT_EQ(b.placed(c1), "copy; notify part.0@0 += 1");
  EXPECT_EQ(b.placed(m), "wait part.0 >= 1; copy");
}

TEST(PlaceSignals, CountersGatherWhatTheSameConsumersNeedAndFlagsDoNot) {
  for (Sync sync : {Sync::counter, Sync::flag}) {
    DraftBuilder b(1, sync);
    const auto part = b.buffer("part", BufferRole::local);
    const auto c0 = b.lane(Kind::compute, 0, 0), c1 = b.lane(Kind::compute, 0, 1),
               m = b.lane(Kind::comm, 0, 0);
    b.task(c0, copy, {}, {rows(part, 0, 0, 16)});
    b.task(c1, copy, {}, {rows(part, 0, 16, 32)});
    b.task(m, deliver, {rows(part, 0, 0, 32)}, {});
    if (sync == Sync::counter) {
      EXPECT_EQ(b.placed(m), "wait part.0 >= 2; deliver");
    } else {
      EXPECT_EQ(b.placed(m), "wait part.0 >= 1; wait part.1 >= 1; deliver");
    }
  }
}

TEST(PlaceSignals, ACopyLaneWaitsForOneCounterWhateverTheSchedule) {
  for (Sync sync : {Sync::counter, Sync::flag}) {
    DraftBuilder b(1, sync);
    const auto part = b.buffer("part", BufferRole::local);
    const auto c0 = b.lane(Kind::compute, 0, 0), c1 = b.lane(Kind::compute, 0, 1),
               m = b.lane(Kind::copy, 0, 0);
    b.task(c0, copy, {}, {rows(part, 0, 0, 16)});
    b.task(c1, copy, {}, {rows(part, 0, 16, 32)});
    b.task(m, copy, {rows(part, 0, 0, 32)}, {});
    EXPECT_EQ(b.placed(m), "wait part.0 >= 2; copy");
  }
}

// Ranks whose lanes are alike, but of which one alone writes a buffer: at a rank that does not.
TEST(PlaceSignals, WhatOneRankAloneWritesAtAnotherIsAwaitedThere) {
  DraftBuilder b(2, Sync::flag);
  const auto own = b.buffer("own", BufferRole::local), got = b.buffer("got", BufferRole::local),
             slots = b.buffer("slots", BufferRole::symmetric);
  const auto c0 = b.lane(Kind::compute, 0, 0), m0 = b.lane(Kind::comm, 0, 0),
             c1 = b.lane(Kind::compute, 1, 0), m1 = b.lane(Kind::comm, 1, 0);
  b.task(c0, copy, {}, {rows(own, 0, 0, 16)});
  b.task(c1, copy, {}, {rows(own, 1, 0, 16), rows(slots, 0, 0, 16)});
  b.task(m0, copy, {rows(slots, 0, 0, 16)}, {rows(got, 0, 0, 16)});
  b.task(m1, copy, {rows(slots, 1, 0, 16)}, {rows(got, 1, 0, 16)});
  EXPECT_THAT(b.placed(m0), testing::HasSubstr("wait slots.0 >= 1; copy"));
}

// So that a copy engine can notify by a copy of the counter's value.
TEST(PlaceSignals, CopyLanesDoNotShareCounters) {
  DraftBuilder b(3, Sync::counter);
  const auto slots = b.buffer("slots", BufferRole::symmetric, 2);
  const auto m1 = b.lane(Kind::copy, 1, 0), m2 = b.lane(Kind::copy, 2, 0),
             c1 = b.lane(Kind::compute, 1, 0), c2 = b.lane(Kind::compute, 2, 0),
             reader = b.lane(Kind::compute, 0, 0);
  b.task(m1, copy, {}, {rows(slots, 0, 0, 8)});
  b.task(m2, copy, {}, {rows(slots, 0, 8, 16)});
  b.task(c1, copy, {}, {rows(slots, 0, 16, 24)});
  b.task(c2, copy, {}, {rows(slots, 0, 24, 32)});
  b.task(reader, deliver, {rows(slots, 0, 0, 32)}, {});
  EXPECT_THAT(b.placed(reader), testing::HasSubstr("wait slots.0 >= 1; wait slots.1 >= 1; "
                                                   "wait slots.2 >= 2; deliver"));
  EXPECT_THAT(b.placed(c2), testing::HasSubstr("notify slots.2@0 += 1"));
}

TEST(PlaceSignals, TasksOfOneKernelWaitForEachOtherWhereTheyStandDespiteEvents) {
  DraftBuilder b(1, Sync::event);
  const auto x = b.buffer("x", BufferRole::local), y = b.buffer("y", BufferRole::local);
  const auto c0 = b.lane(Kind::compute, 0, 0), c1 = b.lane(Kind::compute, 0, 1),
             n = b.lane(Kind::nccl, 0, 0);
  b.task(c0, copy, {}, {rows(x, 0, 0, 16)});
  b.task(c1, copy, {rows(x, 0, 0, 16)}, {rows(y, 0, 0, 16)});
  b.boundary({c0, c1}, 0);
  b.task(n, collective, {rows(y, 0, 0, 16)}, {rows(y, 0, 0, 16)});
  EXPECT_EQ(b.placed(c0), "copy; notify x.0@0 += 1; boundary; notify y.0@0 += 1");
  EXPECT_EQ(b.placed(c1), "wait x.0 >= 1; copy; boundary");
  EXPECT_EQ(b.placed(n), "wait y.0 >= 1; collective");
}

TEST(PlaceSignals, NothingIsWaitedForTwice) {
  DraftBuilder b(1, Sync::counter);
  const auto x = b.buffer("x", BufferRole::local), y = b.buffer("y", BufferRole::local);
  const auto c0 = b.lane(Kind::compute, 0, 0), c1 = b.lane(Kind::compute, 0, 1),
             c2 = b.lane(Kind::compute, 0, 2);
  b.task(c0, copy, {}, {rows(x, 0, 0, 16)});
  b.task(c0, copy, {}, {rows(x, 0, 16, 32)});
  b.task(c1, copy, {rows(x, 0, 16, 32)}, {rows(y, 0, 0, 16)});
  b.task(c1, deliver, {rows(x, 0, 0, 16)}, {});  // earlier in the lane it waited for
  b.task(c2, deliver, {rows(x, 0, 0, 32), rows(y, 0, 0, 16)}, {});  // x follows from y
  EXPECT_EQ(b.placed(c0), "copy; copy; notify x.0@0 += 1");
  EXPECT_EQ(b.placed(c1), "wait x.0 >= 1; copy; notify y.0@0 += 1; deliver");
  EXPECT_EQ(b.placed(c2), "wait y.0 >= 1; deliver");
}

TEST(PlaceSignals, OneCopyOfABufferIsAcknowledgedToTheRankThatWritesIt) {
  DraftBuilder b(2, Sync::counter);
  const auto slots = b.buffer("slots", BufferRole::symmetric, 1);
  const auto c0 = b.lane(Kind::compute, 0, 0), m = b.lane(Kind::comm, 1, 0);
  b.task(c0, copy, {}, {rows(slots, 1, 0, 16)});
  b.task(c0, copy, {}, {rows(slots, 1, 16, 32)});
  b.task(m, deliver, {rows(slots, 1, 0, 16)}, {});
  b.task(m, deliver, {rows(slots, 1, 16, 32)}, {});
  EXPECT_EQ(b.placed(c0),
            "wait ack.0 >= 1 lag 1; copy; notify slots.0@1 += 1; copy; notify slots.1@1 += 1");
  EXPECT_EQ(b.placed(m),
            "wait slots.0 >= 1; deliver; wait slots.1 >= 1; deliver; notify ack.0@0 += 1");
}

// A notify between would keep the activation out of the product's registers.
TEST(PlaceSignals, AnAcknowledgementStandsBehindWhatFollowsTheTile) {
  DraftBuilder b(2, Sync::flag);
  const auto got = b.buffer("got", BufferRole::symmetric), sum = b.buffer("sum", BufferRole::local),
             out = b.buffer("out", BufferRole::output);
  const auto c0 = b.lane(Kind::compute, 0, 0), m0 = b.lane(Kind::comm, 0, 0),
             m1 = b.lane(Kind::comm, 1, 0);
  b.task(m1, copy, {}, {rows(got, 0, 0, 16)});
  b.task(c0, gemm, {rows(got, 0, 0, 16)}, {rows(sum, 0, 0, 16)});
  b.task(c0, gelu, {rows(sum, 0, 0, 16)}, {rows(out, 0, 0, 16)});
  b.task(m0, copy, {rows(got, 0, 0, 8)}, {rows(out, 0, 16, 24)});
  b.task(m0, reduce, {rows(out, 0, 16, 24)}, {rows(out, 0, 24, 32)});
  EXPECT_EQ(b.placed(c0), "wait got.0 >= 1; gemm; gelu; notify ack.0@1 += 1");
  EXPECT_EQ(b.placed(m0), "wait got.0 >= 1; copy; notify ack.0@1 += 1; reduce");
}

TEST(PlaceSignals, TwoCopiesNeedNoAcknowledgementBetweenRanksThatHearFromEachOther) {
  DraftBuilder b(2, Sync::counter);
  const auto slots = b.buffer("slots", BufferRole::symmetric, 2);
  const auto c0 = b.lane(Kind::compute, 0, 0), m0 = b.lane(Kind::comm, 0, 0);
  const auto c1 = b.lane(Kind::compute, 1, 0), m1 = b.lane(Kind::comm, 1, 0);
  b.task(c0, copy, {}, {rows(slots, 1, 0, 16)});
  b.task(c1, copy, {}, {rows(slots, 0, 0, 16)});
  b.task(m0, deliver, {rows(slots, 0, 0, 16)}, {});
  b.task(m1, deliver, {rows(slots, 1, 0, 16)}, {});
  EXPECT_EQ(b.placed(c0), "copy; notify slots.0@1 += 1");
  EXPECT_EQ(b.placed(m0), "wait slots.0 >= 1; deliver");
}

TEST(PlaceSignals, TwoCopiesStillNeedOneTowardsARankThatHearsNothing) {
  DraftBuilder b(2, Sync::counter);
  const auto slots = b.buffer("slots", BufferRole::symmetric, 2);
  const auto c0 = b.lane(Kind::compute, 0, 0), m1 = b.lane(Kind::comm, 1, 0);
  b.task(c0, copy, {}, {rows(slots, 1, 0, 16)});
  b.task(m1, deliver, {rows(slots, 1, 0, 16)}, {});
  EXPECT_EQ(b.placed(c0), "wait ack.0 >= 1 lag 2; copy; notify slots.0@1 += 1");
  EXPECT_EQ(b.placed(m1), "wait slots.0 >= 1; deliver; notify ack.0@0 += 1");
}

// A counter of two ranks could be filled by the faster one counting twice.
TEST(PlaceSignals, ACounterOfSeveralRanksIsGuardedAgainstRunningAhead) {
  DraftBuilder b(3, Sync::counter);
  const auto x = b.buffer("x", BufferRole::symmetric, 1);
  const auto c0 = b.lane(Kind::compute, 0, 0), c1 = b.lane(Kind::compute, 1, 0),
             m2 = b.lane(Kind::comm, 2, 0);
  b.task(c0, copy, {}, {rows(x, 2, 0, 16)});
  b.task(c1, copy, {}, {rows(x, 2, 16, 32)});
  b.task(m2, deliver, {rows(x, 2, 0, 32)}, {});
  EXPECT_EQ(b.placed(c0), "wait ack.0 >= 1 lag 1; copy; notify x.0@2 += 1");
  EXPECT_EQ(b.placed(c1), "wait ack.0 >= 1 lag 1; copy; notify x.0@2 += 1");
  EXPECT_EQ(b.placed(m2), "wait x.0 >= 2; deliver; notify ack.0@0 += 1; notify ack.0@1 += 1");
}

TEST(PlaceSignals, EventsStandAtKernelBoundaries) {
  DraftBuilder b(2, Sync::event);
  const auto part = b.buffer("part", BufferRole::local),
             in = b.buffer("in", BufferRole::symmetric, 2);
  const auto c0 = b.lane(Kind::compute, 0, 0), c1 = b.lane(Kind::compute, 0, 1),
             q = b.lane(Kind::copy, 0, 0);
  const auto d0 = b.lane(Kind::compute, 1, 0), d1 = b.lane(Kind::compute, 1, 1);
  b.task(c0, gemm, {}, {rows(part, 0, 0, 16)});
  b.task(c1, gemm, {}, {rows(part, 0, 16, 32)});
  b.boundary({c0, c1}, 0);
  b.task(q, copy, {rows(part, 0, 0, 32)}, {rows(in, 1, 0, 32)});
  b.boundary({d0, d1}, 0);
  b.task(d0, deliver, {rows(in, 1, 0, 16)}, {});
  b.task(d1, deliver, {rows(in, 1, 16, 32)}, {});
  EXPECT_EQ(b.placed(c0), "gemm; boundary; notify part.0@0 += 1");
  EXPECT_EQ(b.placed(c1), "gemm; boundary");
  EXPECT_EQ(b.placed(q), "wait ack.0 >= 2 lag 2; wait part.0 >= 1; copy; notify in.0@1 += 1");
  EXPECT_EQ(b.placed(d0), "wait in.0 >= 1; boundary; deliver; notify ack.0@0 += 1");
  EXPECT_EQ(b.placed(d1), "boundary; deliver; notify ack.0@0 += 1");
}

}  // namespace
}  // namespace stretto
