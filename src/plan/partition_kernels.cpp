#include "plan/partition_kernels.h"

#include <algorithm>

#include "plan/chosen_operands.h"
#include "stretto/device/partition_by_blocks.h"

namespace stretto {

namespace {

bool makes_whole_partition(const Instr& instr) {
  return instr.kind() != nullptr && instr.kind()->makes_partition == PartitionStep::whole;
}

}  // namespace

int partition_blocks(const Plan& plan, const Lane& lane, uint32_t begin, uint32_t end) {
  int most = 0;
  if (lane.kind != LaneKind::compute) return 0;
  for (uint32_t at = begin; at < end; ++at) {
    const Instr& instr = lane.instrs[at];
    if (!makes_whole_partition(instr)) return 0;
    const int64_t choices = plan.reads(instr)[0].elements();
    if (choices > INT32_MAX) return 0;
    const int blocks =
        device::partition_blocks(static_cast<int32_t>(choices), plan.writes(instr)[3].rows() - 1);
    if (blocks == 0) return 0;
    most = std::max(most, blocks);
  }
  return most;
}

bool comes_with_partition(const Plan& plan, const Instr& collective, const Instr& route) {
  if (!plan.low_latency_collectives || !makes_whole_partition(route)) return false;
  if (collective.op != Opcode::collective) return false;
  const CollectiveForm& form = form_of(collective.collective);
  if (!form.goes_by_ids() || form.adds) return false;
  const Region* const ids = dispatched(plan, collective).ids;
  if (ids == nullptr || *ids != plan.reads(route)[0]) return false;
  const int64_t choices = ids->elements();
  if (collective.count(0) != route.count(0) || choices < 1 || choices > INT32_MAX) return false;
  return device::joined_partition_fits(static_cast<int32_t>(choices),
                                       plan.writes(route)[3].rows() - 1);
}

}  // namespace stretto
