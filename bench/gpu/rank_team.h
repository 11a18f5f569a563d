// The ranks of a benchmark in one process: a thread, a stream and an NCCL communicator each, and
// times of captured graphs. Ranks that share GPUs make fewer calls, have no communicators, and all
// their times are 0.
#pragma once

#include <algorithm>
#include <barrier>
#include <bit>
#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "fabric/fabric.h"
#include "gpu/device.h"
#include "gpu/graph.h"

namespace stretto::bench {

// Of one call, in microseconds, the longest rank's. Back to back: the mean within a graph of many
// calls, over launches. Isolated: graphs of one call, launched together from rest.
struct Timing {
  double median_us = 0, p99_us = 0;
  double isolated_us = 0, isolated_p99_us = 0;
};

class RankTeam {
 public:
  explicit RankTeam(int ranks)
      : fabric_(fabric::in_process(ranks)), nccl_(shares() ? nullptr : &fabric_->communicators()) {
    for (int r = 0; r < ranks; ++r) {
      fabric_->device(r).make_current();
      streams_.push_back(std::make_unique<cuda::Stream>());
      starts_.push_back(std::make_unique<cuda::Event>());
      stops_.push_back(std::make_unique<cuda::Event>());
    }
  }

  int ranks() const { return fabric_->ranks(); }
  fabric::Fabric& fabric() { return *fabric_; }
  const fabric::Communicators& nccl() const { return *nccl_; }
  bool shares() const { return fabric_->ranks_a_gpu() > 1; }
  // These numbers of blocks, or the power of two that a rank may keep on a GPU that it shares, so
  // that tiles divide as they do with all others.
  std::vector<int> blocks(std::vector<int> wanted) const {
    if (!shares()) return wanted;
    const auto most = std::bit_floor(static_cast<unsigned>(fabric_->device(0).num_sms()));
    for (int& count : wanted) count = std::min(count, static_cast<int>(most));
    wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
    return wanted;
  }
  const cuda::Stream& stream(int rank) const { return *streams_[static_cast<size_t>(rank)]; }

  // `work` on a thread a rank, its GPU current.
  void each_rank(const std::function<void(int)>& work) {
    std::vector<std::thread> threads;
    std::vector<std::exception_ptr> failures(static_cast<size_t>(ranks()));
    for (int rank = 0; rank < ranks(); ++rank) {
      threads.emplace_back([&, rank] {
        try {
          fabric_->device(rank).make_current();
          work(rank);
        } catch (...) {
          failures[static_cast<size_t>(rank)] = std::current_exception();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::exception_ptr& failure : failures) {
      if (failure) std::rethrow_exception(failure);
    }
  }

  // Runs it once on every rank.
  void run(const std::function<void(int)>& enqueue) {
    each_rank([&](int rank) {
      enqueue(rank);
      stream(rank).synchronize();
    });
  }

  Timing time(const std::function<void(int)>& enqueue) {
    Timing timing;
    run(enqueue);  // what is set up at the first call cannot be captured
    if (shares()) {
      graph_times(enqueue, 4, 3);
      return timing;
    }
    const std::vector<double> one = graph_times(enqueue, 1, 50);
    timing.isolated_us = at(one, 0.5);
    timing.isolated_p99_us = at(one, 0.99);
    const int calls = timing.isolated_us > 200 ? 4 : 20;
    const std::vector<double> many = graph_times(enqueue, calls, 50);
    timing.median_us = at(many, 0.5);
    timing.p99_us = at(many, 0.99);
    return timing;
  }

  // Of what calls NCCL.
  Timing time_nccl(const std::function<void(int)>& enqueue) {
    return shares() ? Timing() : time(enqueue);
  }

 private:
  static double at(const std::vector<double>& sorted, double part) {
    return sorted[static_cast<size_t>(part * static_cast<double>(sorted.size() - 1))];
  }

  // Sorted, a call, the maximum over ranks.
  std::vector<double> graph_times(const std::function<void(int)>& enqueue, int calls, int rounds) {
    constexpr int kWarmUp = 5;
    std::vector<std::vector<double>> times(static_cast<size_t>(ranks()));
    std::barrier together(ranks());
    each_rank([&](int rank) {
      const auto index = static_cast<size_t>(rank);
      const cuda::Graph graph(stream(rank), [&] {
        for (int i = 0; i < calls; ++i) enqueue(rank);
      });
      for (int round = -kWarmUp; round < rounds; ++round) {
        together.arrive_and_wait();
        starts_[index]->record(stream(rank));
        graph.launch(stream(rank));
        stops_[index]->record(stream(rank));
        stream(rank).synchronize();
        if (round < 0) continue;
        times[index].push_back(stops_[index]->elapsed_us_since(*starts_[index]) / calls);
      }
    });
    std::vector<double> longest = times[0];
    for (const std::vector<double>& of_rank : times) {
      for (size_t i = 0; i < longest.size(); ++i) longest[i] = std::max(longest[i], of_rank[i]);
    }
    std::sort(longest.begin(), longest.end());
    return longest;
  }

  std::unique_ptr<fabric::Fabric> fabric_;
  const fabric::Communicators* nccl_;  // null where ranks share GPUs
  std::vector<std::unique_ptr<cuda::Stream>> streams_;
  std::vector<std::unique_ptr<cuda::Event>> starts_, stops_;
};

}  // namespace stretto::bench
