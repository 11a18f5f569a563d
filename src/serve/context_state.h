// What a context holds.
#pragma once

#include <memory>
#include <vector>

#include "fabric/job.h"
#include "gpu/compiler.h"
#include "run/kernel_store.h"
#include "stretto/context.h"
#include "stretto/machine.h"
#include "stretto/tune.h"

namespace stretto {

struct Context::State {
  explicit State(int ranks, double timeout_s);
  ~State();

  size_t local(int rank) const;  // Throws UsageError when the rank is not of this process.
  const cuda::Device& device(int rank) const;

  uint64_t timeout_ns;
  std::unique_ptr<fabric::Fabric> fabric;
  cuda::Compiler compiler;
  runtime::KernelStore kernels;
  Tuning tuning;
  Machine machine;                                     // plans are made for
  std::vector<std::unique_ptr<cuda::Stream>> streams;  // by local rank
};

}  // namespace stretto
