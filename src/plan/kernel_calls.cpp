#include "plan/kernel_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "stretto/error.h"

namespace stretto {
namespace {

constexpr int64_t kVectorBytes = 16;

int64_t bytes_of(const Plan& plan, const Region& region) {
  return region.elements() * num_bytes(plan.buffers[region.buffer].dtype);
}

// Bytes of each rank's part of what all have together; of an all-reduce all of them.
std::vector<int64_t> bytes_by_owner(const Plan& plan, const Instr& instr) {
  const CollectiveForm& form = form_of(instr.collective);
  const auto all = form.groups_writes ? plan.writes(instr) : plan.reads(instr);
  const bool has_owners = form.groups_reads || form.groups_writes;
  const size_t owners = has_owners ? static_cast<size_t>(plan.ranks()) : 1;
  std::vector<int64_t> bytes(owners, 0);
  for (size_t i = 0; i < all.size(); ++i) {
    bytes[i * owners / all.size()] += bytes_of(plan, all[i]);
  }
  return bytes;
}

template <class Is>
bool any_collective(const Plan& plan, const Is& is) {
  return std::any_of(plan.lanes.begin(), plan.lanes.end(), [&](const Lane& lane) {
    return lane.kind == LaneKind::nccl &&
           std::any_of(lane.instrs.begin(), lane.instrs.end(), [&](const Instr& instr) {
             return instr.op == Opcode::collective && is(instr);
           });
  });
}

}  // namespace

CollectiveKind collective_of(Edge edge) {
  if (edge == Edge::gather) return CollectiveKind::all_gather;
  if (edge == Edge::reduce_scatter) return CollectiveKind::reduce_scatter;
  STRETTO_ASSERT(edge == Edge::all_reduce, "kernels are for three edges");
  return CollectiveKind::all_reduce;
}

KernelCallSizes kernel_call_sizes(const Plan& plan, const Instr& instr) {
  const std::vector<int64_t> bytes = bytes_by_owner(plan, instr);
  KernelCallSizes sizes;
  sizes.count = std::accumulate(bytes.begin(), bytes.end(), int64_t{0}) / kVectorBytes;
  sizes.part = instr.collective == CollectiveKind::all_reduce
                   ? (sizes.count + plan.ranks() - 1) / plan.ranks()
                   : bytes.front() / kVectorBytes;
  return sizes;
}

std::string fault_in_kernel_call(const Plan& plan, const Instr& instr) {
  if (instr.kernel() > plan.op.kernels.size()) {
    return fmt::format("expected one of the graph's {} kernels, found number {}",
                       plan.op.kernels.size(), instr.kernel());
  }
  const EdgeKernel& kernel = plan.op.kernels[instr.kernel() - 1];
  if (collective_of(kernel.edge) != instr.collective) {
    return fmt::format("expected kernel {} to make {}, found {}", kernel.name,
                       to_string(collective_of(kernel.edge)), to_string(instr.collective));
  }
  if (plan.low_latency_collectives) {
    return fmt::format("expected no kernel={} in a plan with 'collectives low-latency'",
                       kernel.name);
  }
  if (instr.team > 0) {
    return fmt::format("expected kernel {} to join all ranks, found team={}", kernel.name,
                       instr.team);
  }
  for (const Region& region : plan.reads(instr)) {
    for (const Region& write : plan.writes(instr)) {
      if (!region.overlaps(write)) continue;
      return fmt::format("expected kernel {} to write other memory than it reads, found {} and {}",
                         kernel.name, describe(plan, region), describe(plan, write));
    }
  }
  for (size_t i = 0; i < size_t{instr.num_reads} + instr.num_writes; ++i) {
    const Region& region = plan.operands[instr.first_operand + i];
    const bool is_table = is_index(plan.buffers[region.buffer].dtype);
    if (!is_table && bytes_of(plan, region) % kVectorBytes == 0) continue;
    return fmt::format(
        "expected kernel {} to move multiples of {} bytes of bf16, fp16 or fp32, "
        "found {} of {} x {}",
        kernel.name, kVectorBytes, describe(plan, region), region.elements(),
        to_string(plan.buffers[region.buffer].dtype));
  }
  const std::vector<int64_t> bytes = bytes_by_owner(plan, instr);
  for (size_t i = 1; i < bytes.size(); ++i) {
    const bool is_last = i + 1 == bytes.size() || bytes[i + 1] == 0;
    if (bytes[i] == bytes[0] || (bytes[i] < bytes[0] && is_last)) continue;
    return fmt::format("expected parts of {} bytes but for the last, found {} bytes of rank {}",
                       bytes[0], bytes[i], i);
  }
  return {};
}

bool any_kernel_calls(const Plan& plan) {
  if (plan.op.kernels.empty()) return false;
  return any_collective(plan, [](const Instr& instr) { return instr.kernel() > 0; });
}

bool any_by_language(const Plan& plan) {
  return plan.low_latency_collectives || any_kernel_calls(plan);
}

bool any_by_nccl(const Plan& plan) {
  if (plan.low_latency_collectives) return false;
  return any_collective(plan, [](const Instr& instr) { return instr.kernel() == 0; });
}

}  // namespace stretto
