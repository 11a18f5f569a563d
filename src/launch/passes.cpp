#include "launch/passes.h"

#include <algorithm>
#include <iterator>

#include "plan/partition_kernels.h"
#include "plan/tile_task.h"
#include "stretto/device/pass_elements.h"

namespace stretto::cuda {
namespace {

bool is_plain(Opcode op) {
  return op == Opcode::copy || op == Opcode::reduce || op == Opcode::norm || follows_product(op);
}

// What a row has of terms is looked up by the lanes of a warp.
constexpr size_t kTerms = 32;

using Reads = std::span<const Region>;

bool few_columns(const Plan&, const Instr&, Reads reads) {
  return reads[0].cols() <= static_cast<int64_t>(kTerms);
}
bool few_reads(const Plan&, const Instr&, Reads reads) { return reads.size() <= kTerms; }
bool as_they_lie(const Plan& plan, const Instr& instr, Reads reads) {
  return plan.buffers[reads[1].buffer].dtype == plan.buffers[plan.writes(instr)[0].buffer].dtype;
}

// What passes do of rows that tables name, and of it what. Beside tables plain sums are tasks of
// routed rows too.
struct RoutedPass {
  Opcode op;
  bool (*serves)(const Plan& plan, const Instr& instr, Reads reads);
};
constexpr RoutedPass kRoutedPasses[] = {{Opcode::weigh, few_columns},
                                        {Opcode::combine, few_columns},
                                        {Opcode::merge, few_reads},
                                        {Opcode::reduce, few_reads},
                                        {Opcode::permute, as_they_lie}};

bool names_rows(const Plan& plan, const Instr& instr) {
  return std::any_of(std::begin(kRoutedPasses), std::end(kRoutedPasses),
                     [&](const RoutedPass& pass) {
                       return pass.op == instr.op && pass.serves(plan, instr, plan.reads(instr));
                     });
}

bool passes(const Plan& plan, const Instr& instr) {
  if (instr.op == Opcode::wait) return !plan.has_tables();
  if (instr.op == Opcode::notify) return false;
  const auto reads = plan.reads(instr), writes = plan.writes(instr);
  if (plan.has_tables()) return names_rows(plan, instr) && in_vectors(plan, writes);
  if (!is_plain(instr.op) || !in_vectors(plan, reads) || !in_vectors(plan, writes)) return false;
  return instr.op != Opcode::norm || reads[0].cols() <= static_cast<int64_t>(device::kPassColumns);
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
