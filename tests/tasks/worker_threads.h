// Workers of one lane or of several, each lane a thread.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <barrier>
#include <cstdint>
#include <thread>
#include <vector>

#include "stretto/device/make_partition.h"

namespace stretto::device {

// Threads that act as the lanes of one worker.
struct Team {
  static constexpr int kLanes = 4;
  std::barrier<> barrier{kLanes};
  std::array<int32, kLanes> said{};
};

struct TeamWorker {
  static constexpr int32 kCount = Team::kLanes;
  static inline thread_local Team* team = nullptr;
  static inline thread_local int32 lane = 0;

  static int32 number() { return lane; }
  static AlikeLanes alike(int32 column, int32 columns) {
    EXPECT_LT(column, columns);
    say(column);
    AlikeLanes alike{0, 0, -1};
    for (int32 other = 0; other < kCount; ++other) {
      if (team->said[size_t(other)] != column) continue;
      if (alike.first < 0) alike.first = other;
      alike.before += other < lane;
      ++alike.all;
    }
    meet();
    return alike;
  }
  static int32 of(int32 value, int32 other) {
    say(value);
    const int32 said = team->said[size_t(other)];
    meet();
    return said;
  }
  static void meet() { team->barrier.arrive_and_wait(); }

 private:
  static void say(int32 value) {
    team->said[size_t(lane)] = value;
    meet();
  }
};

// Calls act(worker) for so many workers, with what makes all know what each has written.
template <class Worker>
void by_workers(int workers, const auto& act) {
  const int lanes = Worker::kCount;
  std::barrier barrier(workers * lanes);
  std::vector<Team> teams(static_cast<size_t>(workers));
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < workers * lanes; ++thread) {
    threads.emplace_back([&, thread] {
      TeamWorker::team = &teams[size_t(thread / lanes)];
      TeamWorker::lane = thread % lanes;
      act(thread / lanes, [&] { barrier.arrive_and_wait(); });
    });
  }
}

}  // namespace stretto::device
