// Every piece of work is done once, wherever it is done.
#include "core/parallel.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <stdexcept>
#include <vector>

namespace stretto {
namespace {

void expect_each_once(size_t count, size_t most_threads) {
  std::vector<std::atomic<int>> done(count);
  for_each_in_parallel(count, most_threads, [&](size_t i) { ++done[i]; });
  for (const std::atomic<int>& times : done) EXPECT_EQ(times, 1);
}

TEST(Parallel, DoesEachOnce) {
  expect_each_once(0, 4);
  expect_each_once(1, 4);
  expect_each_once(1000, 1);
  expect_each_once(1000, 64);
}

TEST(Parallel, ThrowsWhatFailedWhenAllHaveEnded) {
  std::atomic<int> begun = 0, ended = 0;
  EXPECT_THROW(for_each_in_parallel(1000, 64,
                                    [&](size_t i) {
                                      ++begun;
                                      if (i == 3) {
                                        ++ended;
                                        throw std::runtime_error("three");
                                      }
                                      ++ended;
                                    }),
               std::runtime_error);
  EXPECT_EQ(begun, ended);
}

// Threads whose stacks do not fit are not to be had.
TEST(Parallel, IsDoneByOneThreadWhereThereAreNoMore) {
  pthread_attr_t before, huge;
  ASSERT_EQ(pthread_getattr_default_np(&before), 0);
  ASSERT_EQ(pthread_attr_init(&huge), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&huge, size_t{1} << 50), 0);
  ASSERT_EQ(pthread_setattr_default_np(&huge), 0);
  expect_each_once(10, 64);
  ASSERT_EQ(pthread_setattr_default_np(&before), 0);
  pthread_attr_destroy(&huge);
  pthread_attr_destroy(&before);
}

}  // namespace
}  // namespace stretto
