#include "launch/joined_partitions.h"

#include <algorithm>

#include "plan/partition_kernels.h"

namespace stretto::cuda {
namespace {

// The partition that is all that the kernel of movers does; null: it does something else.
const BlockPart* only_partition(const Plan& plan, const std::vector<BlockPart>& parts) {
  if (parts.size() != 1 || !parts[0].at_end.empty()) return nullptr;
  const BlockPart& part = parts[0];
  const bool is_one = part.end == part.begin + 1 &&
                      partition_blocks(plan, plan.lanes[part.lane], part.begin, part.end) > 0;
  return is_one ? &part : nullptr;
}

// Of the only stream's steps those that are collectives with a partition right behind them.
std::vector<size_t> joints_of(const Plan& plan, const RankProgram& program) {
  std::vector<size_t> joints;
  if (program.streams.size() != 1) return joints;
  const std::vector<Step>& steps = program.streams[0].steps;
  for (size_t at = 0; at + 1 < steps.size(); ++at) {
    if (steps[at].kind != StepKind::collective || steps[at + 1].kind != StepKind::move) continue;
    const BlockPart* const part = only_partition(plan, program.moves[steps[at + 1].index]);
    if (part == nullptr) continue;
    const Instr& route = plan.lanes[part->lane].instrs[part->begin];
    if (comes_with_partition(plan, steps[at].instr(plan), route)) joints.push_back(at);
  }
  return joints;
}

std::vector<int32_t> ids_of(const Plan& plan, const RankProgram& program,
                            const std::vector<size_t>& joints) {
  std::vector<int32_t> ids;
  for (const size_t at : joints) ids.push_back(program.streams[0].steps[at].instr(plan).id);
  return ids;
}

// The kernel is none any more, and those behind it are numbered anew.
void take_out(RankProgram& program, uint32_t move) {
  program.moves.erase(program.moves.begin() + move);
  const auto renumber = [&](uint32_t& number) { number -= number > move; };
  for (std::optional<uint32_t>& one : program.rows) {
    if (one) renumber(*one);
  }
  for (std::optional<uint32_t>& one : program.movers) {
    if (one) renumber(*one);
  }
  for (Step& step : program.streams[0].steps) {
    if (step.kind == StepKind::move) renumber(step.index);
  }
}

}  // namespace

void join_partitions(const Plan& plan, std::vector<RankProgram>& programs) {
  if (!plan.low_latency_collectives || plan.partitions.empty() || programs.empty()) return;
  std::vector<std::vector<size_t>> joints;
  for (const RankProgram& program : programs) joints.push_back(joints_of(plan, program));
  const std::vector<int32_t> ids = ids_of(plan, programs[0], joints[0]);
  for (size_t rank = 1; rank < programs.size(); ++rank) {
    if (ids_of(plan, programs[rank], joints[rank]) != ids) return;
  }
  for (size_t rank = 0; rank < programs.size(); ++rank) {
    for (const size_t at : joints[rank]) {
      Step& step = programs[rank].streams[0].steps[at + 1];
      const uint32_t move = step.index;
      const BlockPart part = programs[rank].moves[move].front();
      step = {StepKind::route, 0, part.lane, part.begin};
      take_out(programs[rank], move);
    }
  }
}

std::map<int32_t, InstrRef> joined_partitions(const Plan& plan, const RankProgram& program) {
  std::map<int32_t, InstrRef> found;
  for (const StepStream& stream : program.streams) {
    for (size_t at = 1; at < stream.steps.size(); ++at) {
      const Step& step = stream.steps[at];
      if (step.kind != StepKind::route) continue;
      found[stream.steps[at - 1].instr(plan).id] = {step.lane, step.position};
    }
  }
  return found;
}

std::map<int32_t, InstrRef> joined_partitions(const Plan& plan, int rank) {
  if (!plan.low_latency_collectives || plan.partitions.empty()) return {};
  return joined_partitions(plan, programs_of(plan)[static_cast<size_t>(rank)]);
}

}  // namespace stretto::cuda
