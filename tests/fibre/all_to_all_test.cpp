// The low-latency all-to-all: every token arrives with its scales, call after call, also when some
// ranks get none and some get more than fits.
#include "fibre/scenarios/all_to_all.h"

#include "fibre/expect_clean.h"

namespace stretto::fibre {
namespace {

using namespace stretto::device;

TEST(AllToAll, MovesEveryTokenCallAfterCall) {
  expect_clean({.ranks = 3, .blocks = 2, .threads = 4}, all_to_all_calls);
  expect_clean({.ranks = 5, .blocks = 4, .threads = 1}, all_to_all_calls, 15);
}

TEST(AllToAll, WorksAcrossNodes) {
  expect_clean({.ranks = 4, .blocks = 3, .threads = 2, .warp_size = 2, .ranks_per_node = 2},
               all_to_all_calls, 20);
}

}  // namespace
}  // namespace stretto::fibre
