// The tensors that all contestants of a benchmark work on: inputs, and the result in fp32.
#pragma once

#include <memory>
#include <vector>

#include "fabric/fabric.h"
#include "gpu/cublas.h"
#include "gpu/test_data.h"
#include "run/plan_runner.h"
#include "stretto/operator.h"

namespace stretto::runtime {

class BenchTensors {
 public:
  // Standard normal inputs. Collective.
  BenchTensors(const Operator& op, fabric::Fabric& fabric, const cuda::Compiler& compiler);
  ~BenchTensors();
  BenchTensors(const BenchTensors&) = delete;
  BenchTensors& operator=(const BenchTensors&) = delete;

  const Operator& op() const { return op_; }
  fabric::Fabric& fabric() const { return fabric_; }
  const fabric::Communicators& nccl() const { return nccl_; }
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
  // Collective. The relative error of a run's outputs, the worst rank's; poisons them.
  double error_of(const PlanRunner& runner) const;
  // Empties the L2 cache, then brings the ranks together. The rank's GPU is current.
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

  Operator op_;
  fabric::Fabric& fabric_;
  const fabric::Communicators& nccl_;
  int nccl_generation_;
  std::vector<Rank> ranks_;
};

}  // namespace stretto::runtime
