// Graphs of calls are bounded for all plans of a rank together.
#include "calls/call_graph_room.h"

#include <gmock/gmock.h>

#include <vector>

namespace stretto::runtime {
namespace {

using testing::ElementsAre;

TEST(CallGraphRoom, TheLongestUnusedMakesWayWhoseverItIs) {
  CallGraphRoom room(3);
  std::vector<int> gone;
  const auto add = [&](int graph) { return room.add([&gone, graph] { gone.push_back(graph); }); };
  const auto first = add(1);
  add(2);
  add(3);
  EXPECT_THAT(gone, ElementsAre());
  room.use(first);
  add(4);
  EXPECT_THAT(gone, ElementsAre(2));
  add(5);
  EXPECT_THAT(gone, ElementsAre(2, 3));
  room.remove(first);  // by its owner, who is not asked to give it up
  add(6);
  EXPECT_THAT(gone, ElementsAre(2, 3));
  EXPECT_EQ(room.count(), 3u);
}

}  // namespace
}  // namespace stretto::runtime
