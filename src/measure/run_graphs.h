// Runs of a plan, or of anything else that ranks enqueue, captured as one graph a rank and timed.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "gpu/graph.h"
#include "run/plan_runner.h"

namespace stretto::runtime {

class RunGraphs {
 public:
  // Captures `runs` times what enqueue(rank, stream) puts on the rank's stream; streams by local
  // rank. `nccl`: whose collectives are among it, for they are given up where they do not end.
  using Enqueue = std::function<void(int rank, const cuda::Stream& stream)>;
  RunGraphs(fabric::Fabric& fabric, std::vector<const cuda::Stream*> streams, int runs,
            const Enqueue& enqueue, fabric::Communicators* nccl = nullptr);
  RunGraphs(PlanRunner& runner, fabric::Fabric& fabric, int runs);
  // Of a runner whose runs take more than a stream.
  RunGraphs(PlanRunner& runner, fabric::Fabric& fabric, int runs, const Enqueue& enqueue);
  ~RunGraphs();
  RunGraphs(const RunGraphs&) = delete;
  RunGraphs& operator=(const RunGraphs&) = delete;

  int runs() const { return runs_; }
  // On a rank's own stream; its GPU is current.
  void launch(int rank) const;
  const cuda::Stream& stream(int rank) const;
  // Collective. The longest rank's time a run, in microseconds, back to back: as many launches go
  // ahead of the timed ones, so that ranks which began apart have come together. Of a plan: throws
  // as PlanRunner::finish(); else SystemError naming ranks that do not come to the end.
  double time_us(int launches = 1) const;
  // Collective. The same of one launch by itself, after what `before` puts on the stream.
  double time_us_after(const Enqueue& before) const;

 private:
  struct Rank {
    const cuda::Stream* stream = nullptr;
    std::unique_ptr<cuda::Graph> graph;
    std::unique_ptr<cuda::Event> start, stop;
  };
  void capture(const Enqueue& enqueue);
  double time_behind(const std::function<void(int rank, const Rank& mine)>& ahead,
                     int launches) const;

  fabric::Fabric& fabric_;
  PlanRunner* runner_ = nullptr;
  fabric::Communicators* nccl_ = nullptr;
  int runs_;
  std::vector<Rank> ranks_;
};

}  // namespace stretto::runtime
