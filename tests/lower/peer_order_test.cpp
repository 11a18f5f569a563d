#include "lower/peer_order.h"

#include <gmock/gmock.h>

#include <set>

#include "lower/drafts.h"

namespace stretto {
namespace {

using testing::ElementsAre;

TEST(PeerOrder, ReductionsSendToTheNextRankFirst) {
  EXPECT_THAT(peer_order(Order::peer_staggered, false, 2, 5, small_machine(5)),
              ElementsAre(3, 4, 0, 1));
}

TEST(PeerOrder, GathersSendToTheRankThatNeedsItFirst) {
  EXPECT_THAT(peer_order(Order::own_first, true, 2, 5, small_machine(5)), ElementsAre(1, 0, 4, 3));
  // Rank 1 begins with its own shard and goes on with rank 2's.
  EXPECT_THAT(owner_turns(Order::own_first, true, 1, 5, small_machine(5)),
              ElementsAre(4, 0, 1, 2, 3));
}

TEST(PeerOrder, NoTwoRanksSendToOneAtTheSameTime) {
  const Machine machine = small_machine(12, 8, 4);
  for (const bool gathers : {false, true}) {
    for (const Order order : {Order::plain, Order::node_then_local}) {
      for (size_t step = 0; step < 11; ++step) {
        std::set<int> receivers;
        for (int rank = 0; rank < 12; ++rank) {
          receivers.insert(peer_order(order, gathers, rank, 12, machine)[step]);
        }
        EXPECT_EQ(receivers.size(), 12u) << "step " << step;
      }
    }
  }
}

TEST(PeerOrder, NodeThenLocal) {
  const Machine machine = small_machine(6, 8, 3);
  EXPECT_THAT(peer_order(Order::node_then_local, false, 1, 6, machine), ElementsAre(4, 5, 3, 2, 0));
  EXPECT_THAT(peer_order(Order::node_then_local, true, 1, 6, machine), ElementsAre(0, 2, 4, 3, 5));
}

TEST(PeerOrder, TurnsOfOwners) {
  const Machine machine = small_machine(4, 8, 2);
  EXPECT_THAT(owner_turns(Order::plain, false, 2, 4, machine), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(owner_turns(Order::peer_staggered, false, 2, 4, machine), ElementsAre(1, 2, 3, 0));
  // Reductions: other nodes' tiles first, own last. Gathers: own first, other nodes' last.
  EXPECT_THAT(owner_turns(Order::node_then_local, false, 2, 4, machine), ElementsAre(0, 1, 3, 2));
  EXPECT_THAT(owner_turns(Order::node_then_local, true, 2, 4, machine), ElementsAre(2, 3, 0, 1));
}

}  // namespace
}  // namespace stretto
