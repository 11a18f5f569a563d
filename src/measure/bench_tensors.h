// The tensors that all contestants of a benchmark work on: inputs, and the result in fp32.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fabric/fabric.h"
#include "gpu/cublas.h"
#include "gpu/test_data.h"
#include "measure/row_check.h"
#include "run/plan_runner.h"
#include "stretto/operator.h"

namespace stretto::runtime {

// Outputs of one product that are farther from fp32 than this are wrong: rounding of partial sums
// stays well below, one tile of thousands lies above. Each product more rounds what the next one
// reads, by itself: `most_error` of an operator grows as the root of their number.
inline constexpr double kMostError = 5e-3;
double most_error(const Operator& op);

class BenchTensors {
 public:
  // Standard normal inputs; where rows choose experts, choices by `routing`. Collective.
  BenchTensors(const Operator& op, fabric::Fabric& fabric, const cuda::Compiler& compiler,
               const Routing& routing = {});
  ~BenchTensors();
  BenchTensors(const BenchTensors&) = delete;
  BenchTensors& operator=(const BenchTensors&) = delete;

  const Operator& op() const { return op_; }
  fabric::Fabric& fabric() const { return fabric_; }
  // Null: ranks share GPUs, which NCCL refuses.
  fabric::Communicators* nccl() const { return nccl_; }
  const InputData& input_data() const { return input_data_; }
  const cuda::Stream& stream(int rank) const { return *of(rank).stream; }
  const cuda::Cublas& cublas(int rank) const { return *of(rank).cublas; }  // on that stream
  const cuda::TestData& data(int rank) const { return *of(rank).data; }
  std::vector<const cuda::Stream*> streams() const;  // by local rank
  cuda::DevicePtr input(int rank, int tensor) const {
    return of(rank).inputs[static_cast<size_t>(tensor)].address();
  }

  // Throws SystemError where NCCL was given up since, and the graphs that were captured with it.
  void require_same_nccl() const;
  void copy_inputs(const PlanRunner& runner) const;
  struct Verdict {
    double error = 0;     // relative; of rows that the reference has, the part of their bound
    std::string problem;  // what is wrong; empty: nothing
  };
  // Collective. Of a run's outputs, the worst rank's; poisons them.
  Verdict verdict_of(const PlanRunner& runner) const;
  // Empties the L2 cache, then brings the ranks together, which takes NCCL. The rank's GPU is
  // current.
  void enqueue_cold_start(int rank, const cuda::Stream& stream) const;

 private:
  struct Rank {
    std::unique_ptr<cuda::Stream> stream;
    std::unique_ptr<cuda::TestData> data;
    std::unique_ptr<cuda::Cublas> cublas;
    std::vector<cuda::DeviceMemory> inputs;      // by tensor; those that stages make have none
    std::vector<cuda::DeviceMemory> references;  // by output
    cuda::DeviceMemory flush, word;
  };
  const Rank& of(int rank) const {
    return ranks_[static_cast<size_t>(rank - fabric_.first_rank())];
  }
  Rank& of(int rank) { return ranks_[static_cast<size_t>(rank - fabric_.first_rank())]; }
  void prepare(int rank, const cuda::Compiler& compiler);
  double relative_error_of(const PlanRunner& runner) const;
  Verdict verdict_of_rows(const PlanRunner& runner) const;

  Operator op_;
  fabric::Fabric& fabric_;
  fabric::Communicators* nccl_;
  int nccl_generation_;
  std::vector<Rank> ranks_;
  InputData input_data_;             // what rows choose
  std::unique_ptr<RowCheck> check_;  // where they do; else references are whole, on GPUs
};

}  // namespace stretto::runtime
