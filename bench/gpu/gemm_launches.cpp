#include "gemm_launches.h"

#include <fmt/format.h>

#include "stretto/lower.h"

namespace stretto::bench {

const cuda::GemmKernel& GemmKernels::of(const GemmConfig& config) {
  auto& slot = kernels_[cuda::describe(config)];
  if (!slot) slot = std::make_unique<cuda::GemmKernel>(device_, compiler_, config);
  return *slot;
}

GemmLaunches::GemmLaunches(GemmKernels& kernels, const cuda::Stream& stream,
                           const GemmTensors& tensors, const Candidate& candidate, int count)
    : stream_(stream) {
  const cuda::GemmKernel* kernel = nullptr;
  if (candidate.ranges > 1) {
    plan_ranges(kernels, tensors, candidate);
  } else {
    kernel = &kernels.of(candidate.config);
    table_ = std::make_unique<cuda::DeviceGemmTable>(
        cuda::dense_table(tensors.a, tensors.b, tensors.c, candidate.config,
                          kernels.device().num_sms(), candidate.band));
  }
  graph_ = std::make_unique<cuda::Graph>(stream, [&] {
    for (int i = 0; i < count; ++i) {
      if (runner_) {
        const CallTensor call[] = {
            {"a", tensors.a.address}, {"b", tensors.b.address}, {"out", tensors.c.address}};
        runner_->enqueue(0, stream.handle(), {}, call);
      } else {
        kernel->launch(stream, table_->num_blocks(), table_->params(), true);
      }
    }
  });
}

void GemmLaunches::plan_ranges(GemmKernels& kernels, const GemmTensors& tensors,
                               const Candidate& candidate) {
  const auto& [a, b, c] = tensors;
  const Segment op = parse_segment(
      fmt::format("ag-gemm m={} n={} k={} ranks=1 dtype=bf16", c.rows, c.columns, a.columns));
  const Machine machine = default_machine(1);
  const Schedule schedule =
      parse_schedule(fmt::format("tiles,tile={}x{},swizzle={},split-k={}", candidate.config.tile_m,
                                 candidate.config.tile_n, candidate.band, candidate.ranges),
                     op, machine);
  plan_ = std::make_unique<Plan>(lower(op, schedule, machine));
  runner_ = std::make_unique<runtime::PlanRunner>(*plan_, kernels.fabric(), kernels.compiler(),
                                                  runtime::RunnerOptions{.tensors_at_calls = true});
}

}  // namespace stretto::bench
