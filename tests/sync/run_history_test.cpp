// What events of a repeated draft know of one another.
#include "sync/run_history.h"

#include <gtest/gtest.h>

#include "sync/draft_builder.h"

namespace stretto {
namespace {

// Rank 0 reads on two lanes, then goes on; rank 1 has a lane of its own. Nobody waits for anybody
// but where a test says so.
class Joints : public testing::Test {
 protected:
  Joints() : builder_(2, Sync::flag) {
    const auto part = builder_.buffer("part", BufferRole::local);
    for (const int index : {0, 1}) lanes_.push_back(builder_.lane(LaneKind::compute, 0, index));
    lanes_.push_back(builder_.lane(LaneKind::compute, 1, 0));
    for (const uint32_t lane : {0, 1, 0, 1, 2, 2}) {
      const int rank = lane == 2 ? 1 : 0;
      builder_.task(lanes_[lane], Opcode::copy, {rows(part, rank, 0, 16)}, {});
    }
  }
  enum : uint32_t { kFirst, kSecond, kBehindFirst, kBehindSecond, kWriter, kNext };

  // A run in which rank 1's first task waits for what `causes` says.
  void run(RunHistory& history, const std::vector<Event>& causes = {}) {
    history.run([](uint32_t) { return std::span<const uint32_t>(); },
                [&](uint32_t at) {
                  return at == kWriter ? std::span<const Event>(causes) : std::span<const Event>();
                });
  }

  DraftBuilder builder_;
  std::vector<uint32_t> lanes_;
};

TEST_F(Joints, StandForTheEndsOfTheirInstructionsAndForNoMore) {
  RunHistory history(builder_.draft(), nullptr, {{kFirst, kSecond}});
  run(history);
  run(history, {history.joint(0, 0)});
  const LaneClocks& clocks = history.clocks();
  for (const uint32_t after : {kWriter, kNext}) {
    const Event writer = history.event(1, after);
    EXPECT_TRUE(clocks.precedes(history.event(0, kFirst), writer));
    EXPECT_TRUE(clocks.precedes(history.event(0, kSecond), writer));
    EXPECT_FALSE(clocks.precedes(history.event(0, kBehindFirst), writer));
    EXPECT_FALSE(clocks.precedes(history.event(0, kBehindSecond), writer));
    EXPECT_FALSE(clocks.precedes(history.event(1, kFirst), writer));
    EXPECT_FALSE(clocks.run_precedes(0, 0, writer)) << "the run goes on";
  }
}

// As if each were waited for by name.
TEST_F(Joints, AreOnePerRun) {
  RunHistory joined(builder_.draft(), nullptr, {{kFirst, kSecond}, {kSecond}});
  RunHistory named(builder_.draft());
  for (RunHistory* history : {&joined, &named}) {
    run(*history);
    run(*history);
  }
  run(joined, {joined.joint(1, 0), joined.joint(0, 1)});
  run(named, {named.event(1, kFirst), named.event(1, kSecond), named.event(0, kSecond)});
  for (int before = 0; before < 3; ++before) {
    for (uint32_t at = kFirst; at <= kNext; ++at) {
      for (uint32_t after = kFirst; after <= kNext; ++after) {
        EXPECT_EQ(joined.clocks().precedes(joined.event(before, at), joined.event(2, after)),
                  named.clocks().precedes(named.event(before, at), named.event(2, after)))
            << before << ": " << at << " and " << after;
      }
    }
    EXPECT_EQ(
        joined.clocks().run_precedes(0, static_cast<uint32_t>(before), joined.event(2, kWriter)),
        before == 0);
  }
  EXPECT_TRUE(joined.clocks().precedes(joined.event(1, kSecond), joined.event(2, kWriter)));
}

}  // namespace
}  // namespace stretto
