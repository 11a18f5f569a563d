// A GEMM by one of the kernels that gemm_bench times, launched as plans launch it.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "fabric/fabric.h"
#include "gemm_candidates.h"
#include "gpu/gemm_kernel.h"
#include "gpu/graph.h"
#include "run/plan_runner.h"
#include "tables/gemm_table.h"

namespace stretto::bench {

// Tensors of one GEMM, C = A times B transposed.
struct GemmTensors {
  cuda::Matrix a, b, c;
};

// Kernels of the first GPU, each compiled once, and what plans on it need.
class GemmKernels {
 public:
  GemmKernels(const cuda::Device& device, const cuda::Compiler& compiler)
      : device_(device), compiler_(compiler) {}

  const cuda::Device& device() const { return device_; }
  const cuda::Compiler& compiler() const { return compiler_; }
  fabric::Fabric& fabric() { return *fabric_; }
  const cuda::GemmKernel& of(const GemmConfig& config);

 private:
  const cuda::Device& device_;
  const cuda::Compiler& compiler_;
  std::unique_ptr<fabric::Fabric> fabric_ = fabric::in_process(1);
  std::map<std::string, std::unique_ptr<cuda::GemmKernel>> kernels_;
};

// A graph of launches of a candidate on given tensors, back to back.
class GemmLaunches {
 public:
  GemmLaunches(GemmKernels& kernels, const cuda::Stream& stream, const GemmTensors& tensors,
               const Candidate& candidate, int count);

  void launch() const { graph_->launch(stream_); }

 private:
  void plan_ranges(GemmKernels& kernels, const GemmTensors& tensors, const Candidate& candidate);

  const cuda::Stream& stream_;
  std::unique_ptr<cuda::DeviceGemmTable> table_;
  std::unique_ptr<Plan> plan_;  // where K is split
  std::unique_ptr<runtime::PlanRunner> runner_;
  std::unique_ptr<cuda::Graph> graph_;
};

}  // namespace stretto::bench
