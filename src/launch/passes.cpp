#include "launch/passes.h"

#include <algorithm>

#include "plan/on_kernel.h"
#include "plan/partition_kernels.h"
#include "stretto/device/pass_elements.h"

namespace stretto::cuda {
namespace {

bool is_plain(KernelKind kernel) {
  return kernel == KernelKind::elements || kernel == KernelKind::norm;
}

// Rows that tables name.
bool names_rows(const Plan& plan, const Instr& instr) {
  const tasks::RoutedKernel* const routed = instr.kind()->kernels.routed;
  return routed != nullptr && routed->passes != nullptr &&
         routed->passes(OnKernel(plan, instr).operands());
}

bool passes(const Plan& plan, const Instr& instr) {
  if (instr.op == Opcode::wait) return !plan.has_tables();
  if (instr.kind() == nullptr) return false;
  const auto reads = plan.reads(instr), writes = plan.writes(instr);
  if (plan.has_tables()) return names_rows(plan, instr) && in_vectors(plan, writes);
  const KernelKind kernel = instr.kind()->kernels.by;
  if (!is_plain(kernel) || !in_vectors(plan, reads) || !in_vectors(plan, writes)) return false;
  return kernel != KernelKind::norm ||
         reads[0].cols() <= static_cast<int64_t>(device::kPassColumns);
}

}  // namespace

bool in_vectors(const Plan& plan, std::span<const Region> regions) {
  return std::all_of(regions.begin(), regions.end(), [&](const Region& region) {
    const Buffer& buffer = plan.buffers[region.buffer];
    const int64_t size = num_bytes(buffer.dtype);
    return region.cols() % 8 == 0 && region.col0 * size % 16 == 0 && buffer.cols * size % 16 == 0;
  });
}

bool is_pass(const Plan& plan, const RankProgram& program, const std::vector<BlockPart>& parts) {
  bool awaits = false, has_one_task_each = true;
  for (const BlockPart& part : parts) {
    const Lane& lane = plan.lanes[part.lane];
    if (lane.kind != LaneKind::compute || !part.at_end.empty()) return false;
    int tasks = 0;
    for (uint32_t at = part.begin; at < part.end; ++at) {
      const Instr& instr = lane.instrs[at];
      if (!passes(plan, instr)) return false;
      awaits = awaits || instr.op == Opcode::wait;
      tasks += instr.op != Opcode::wait && !instr.fused;
    }
    has_one_task_each = has_one_task_each && tasks <= 1;
    // Waits that no task follows are the ring's.
    if (part.begin < part.end && lane.instrs[part.end - 1].op == Opcode::wait) return false;
  }
  return !awaits || (has_one_task_each && program.streams.size() == 1);
}

int partition_blocks(const Plan& plan, const std::vector<BlockPart>& parts) {
  int most = 0;
  for (const BlockPart& part : parts) {
    const int blocks = part.at_end.empty()
                           ? partition_blocks(plan, plan.lanes[part.lane], part.begin, part.end)
                           : 0;
    if (blocks == 0) return 0;
    most = std::max(most, blocks);
  }
  return most;
}

}  // namespace stretto::cuda
