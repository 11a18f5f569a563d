// Who is missing where calls of all ranks do not end, and for how long others wait for them.
#include "run/first_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stretto::runtime {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::Ge;
using testing::Lt;
using Clock = std::chrono::steady_clock;

TEST(EndedWithin, WaitsNoLongerThanAllTake) {
  std::vector<int> looks(3);
  const auto begin = Clock::now();
  const auto ended = ended_within(3, milliseconds(60'000), [&](size_t i) {
    return ++looks[i] > static_cast<int>(i);  // each at a look of its own
  });
  EXPECT_THAT(ended, ElementsAre(true, true, true));
  EXPECT_THAT(looks, ElementsAre(1, 2, 3)) << "who has ended is not asked again";
  EXPECT_THAT(Clock::now() - begin, Lt(milliseconds(30'000)));
}

TEST(EndedWithin, IsOverAtItsLimit) {
  const auto begin = Clock::now();
  EXPECT_THAT(ended_within(3, milliseconds(20), [](size_t i) { return i == 1; }),
              ElementsAre(false, true, false));
  EXPECT_THAT(Clock::now() - begin, Ge(milliseconds(20)));
}

TEST(DescribeUnended, NamesWhoIsMissing) {
  const auto text = [](const std::vector<bool>& ended) {
    return describe_unended("a plan's first collectives", ended, milliseconds(30'000));
  };
  EXPECT_EQ(text({true, true, true}), "");
  EXPECT_EQ(text({false, true, false}),
            "ranks 0, 2 waited 30 s in a plan's first collectives, to which rank 1 did not come");
  EXPECT_EQ(text({false, false}),
            "ranks 0, 1 waited 30 s in a plan's first collectives, which did not end; none is seen "
            "to be behind the others");
}

}  // namespace
}  // namespace stretto::runtime
