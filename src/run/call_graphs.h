// Runs of few rows as graphs, one for each count: a launch of a graph takes the host a fifth of
// what those of its kernels do, and a GPU is done with so few rows before the host is.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "gpu/graph.h"

namespace stretto::runtime {

class CallGraphs {
 public:
  CallGraphs() = default;
  // Captures what enqueue(rows) puts on `stream` for `first` to `last` rows. What it launches must
  // have been launched before, for what is loaded at first use ends a capture.
  CallGraphs(const cuda::Stream& stream, int64_t first, int64_t last,
             const std::function<void(int64_t rows)>& enqueue);

  // A run of so many rows. False, and nothing is done, where there is no graph of them.
  bool launch(const cuda::Stream& stream, int64_t rows);

 private:
  // Row counts whose captures are alike share one: most of a graph's cost is to make it.
  struct Shared {
    std::unique_ptr<cuda::Graph> graph;
    int64_t rows;  // that it has now
  };
  struct Run {
    std::unique_ptr<cuda::Capture> capture;
    size_t shared;
  };
  size_t shared_for(const cuda::Capture& capture, int64_t rows);

  int64_t first_ = 1;
  std::vector<Run> runs_;  // from `first_` rows on
  std::vector<Shared> shared_;
};

}  // namespace stretto::runtime
