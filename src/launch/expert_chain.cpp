#include "launch/expert_chain.h"

namespace stretto::cuda {

std::optional<uint32_t> experts_ahead(const RankProgram& program, uint32_t kernel) {
  for (const StepStream& stream : program.streams) {
    for (size_t at = 1; at < stream.steps.size(); ++at) {
      const Step &ahead = stream.steps[at - 1], &step = stream.steps[at];
      if (step.kind != StepKind::gemm || step.index != kernel) continue;
      const bool is_found =
          ahead.kind == StepKind::gemm && is_by_experts(program.needs[ahead.index]);
      return is_found ? std::optional(ahead.index) : std::nullopt;
    }
  }
  return std::nullopt;
}

bool follows_by_tiles(const Plan& plan, const ExpertProduct& first, const GemmNeeds& of_first,
                      const ExpertProduct& second, const GemmNeeds& of_second) {
  const bool is_in_order = !of_first.scatters && !of_second.gathers && second.a == first.c;
  const bool is_alike = first.counts == second.counts && first.choices == second.choices &&
                        first.experts == second.experts && first.entry_rows == second.entry_rows;
  // Only the plan's own buffers are known to lie apart from all others.
  const uint16_t to = second.c.buffer;
  const bool is_apart = plan.buffers[to].role == BufferRole::local && to != first.a.buffer &&
                        to != first.gate.buffer && (first.up.empty() || to != first.up.buffer);
  return is_in_order && is_alike && is_apart;
}

}  // namespace stretto::cuda
