// A GEMM by every candidate of a list, by few of them in turns with cuBLAS, each verified.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gemm_candidates.h"
#include "gemm_launches.h"
#include "gpu/cublas.h"
#include "gpu/graph.h"
#include "gpu/test_data.h"

namespace stretto::bench {

inline constexpr int kLaunchesPerGraph = 10;

class GemmContest {
 public:
  explicit GemmContest(bool quick);

  std::string machine() const { return device_.name(); }
  // Prints a line, and returns the row of the results.
  nlohmann::json run(const Shape& shape);

 private:
  struct Timed {
    Candidate candidate;
    double time_us, error;
  };
  struct Buffers;

  // A first look at every candidate, the fastest first.
  std::vector<Timed> look(const Shape& shape, const GemmTensors& tensors,
                          const cuda::Matrix& reference);
  // Times of `count` of them and, behind these, of cuBLAS: in turns, so that all meet the same
  // clock.
  std::vector<std::vector<double>> in_turns(const std::vector<Timed>& timed, size_t count,
                                            int rounds, const GemmTensors& tensors);
  template <typename Launch>
  double time_us(Launch launch) {
    start_.record(stream_);
    launch();
    stop_.record(stream_);
    stream_.synchronize();
    return stop_.elapsed_us_since(start_) / kLaunchesPerGraph;
  }

  cuda::Device device_;
  cuda::Compiler compiler_;
  cuda::Stream stream_;
  cuda::TestData data_;
  cuda::Cublas cublas_;
  cuda::Event start_, stop_;
  GemmKernels kernels_;
  bool quick_;
};

}  // namespace stretto::bench
