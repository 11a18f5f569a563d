#include "tables/edge_calls.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/text.h"
#include "tables/collective_parts.h"

namespace stretto::cuda {
namespace {

constexpr int64_t kMostSlotBytes = int64_t{8} << 30;

const EdgeKernel& kernel_of(const Plan& plan, const Instr& instr) {
  return plan.op.kernels.at(instr.kernel() - 1);
}

std::string why_not(const Plan& plan, const Instr& instr, bool serves) {
  const EdgeKernel& kernel = kernel_of(plan, instr);
  const std::string name = "kernel " + kernel.name;
  if (serves) return fmt::format("{}: it serves no runs of fewer rows: take rows=fixed", name);
  const CollectiveParts parts(plan, instr, 0);
  if (!parts.are_rows_of_owners()) {
    return fmt::format("{}: the rows of a collective do not follow each other by owner", name);
  }
  const DType dtype = plan.buffers[plan.reads(instr).front().buffer].dtype;
  if (dtype != DType::bf16 && dtype != DType::fp16) {
    return fmt::format("{}: on GPUs it moves bf16 and fp16, not {}", name, to_string(dtype));
  }
  const KernelCallSizes sizes = kernel_call_sizes(plan, instr);
  if (const int64_t bytes = kernel.slots * sizes.part * kLowLatencyBytes; bytes > kMostSlotBytes) {
    return fmt::format("{}: its slots take {} bytes, at most {}: take fewer slots or rows", name,
                       bytes, kMostSlotBytes);
  }
  return "";
}

}  // namespace

EdgeShape edge_shape(const Plan& plan, const Instr& instr, int sms) {
  const EdgeKernel& kernel = kernel_of(plan, instr);
  const DType dtype = plan.buffers[plan.reads(instr).front().buffer].dtype;
  EdgeShape shape;
  shape.sizes = kernel_call_sizes(plan, instr);
  shape.kernel = {
      "", fmt::format("{}<{}, GpuBlock>", kernel.name, dtype == DType::bf16 ? "Bf16x8" : "Fp16x8"),
      "EdgeArgs<GpuBlock>",
      fmt::format("#include \"stretto/device/elements.h\"\n"
                  "#include \"stretto/device/lang/edge_kernel.h\"\n#line 1 \"{}\"\n{}",
                  kernel.header, kernel.source ? *kernel.source : "")};
  shape.threads = kernel.threads;
  shape.blocks = std::min(kernel.blocks, sms);
  shape.slot_vectors = static_cast<size_t>(std::max<int64_t>(1, kernel.slots * shape.sizes.part));
  shape.signals = static_cast<size_t>(std::max<int64_t>(1, kernel.signals));
  return shape;
}

std::string why_no_source(const EdgeKernel& kernel) {
  if (kernel.source) return "";
  return fmt::format(
      "kernel {}: the text of its header {} was not given (with_kernel_sources(), or "
      "the command's --kernels)",
      kernel.name, quote(kernel.header));
}

std::string why_no_sources(const Plan& plan) {
  if (!any_kernel_calls(plan)) return "";
  for (const Lane& lane : plan.lanes) {
    for (const Instr& instr : lane.instrs) {
      if (instr.kernel() == 0) continue;
      if (std::string why = why_no_source(kernel_of(plan, instr)); !why.empty()) return why;
    }
  }
  return "";
}

std::string why_no_edge_calls(const Plan& plan, bool serves) {
  if (!any_kernel_calls(plan)) return "";
  if (plan.ranks() > device::kMaxRanks) {
    return fmt::format("kernels of the graph's: {} ranks, at most {} are served", plan.ranks(),
                       device::kMaxRanks);
  }
  const Lane* last = nullptr;  // of nccl lanes, which stand rank by rank
  for (const Lane& lane : plan.lanes) {
    if (lane.kind != LaneKind::nccl) continue;
    // Blocks wait for other ranks: two kernels that are begun in another order hold up each other.
    if (last != nullptr && last->rank == lane.rank) {
      return "kernels of the graph's: they run on one lane of a rank, not on more";
    }
    last = &lane;
    if (lane.rank != 0) continue;
    for (const Instr& instr : lane.instrs) {
      if (instr.kernel() == 0) continue;
      if (std::string why = why_not(plan, instr, serves); !why.empty()) return why;
    }
  }
  return "";
}

}  // namespace stretto::cuda
