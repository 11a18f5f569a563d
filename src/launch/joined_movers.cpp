#include "launch/joined_movers.h"

#include <algorithm>

#include "launch/passes.h"

namespace stretto::cuda {
namespace {

bool copies_vectors(const Plan& plan, const BlockPart& part) {
  const std::vector<Instr>& instrs = plan.lanes[part.lane].instrs;
  return std::all_of(
      instrs.begin() + part.begin, instrs.begin() + part.end, [&](const Instr& instr) {
        if (instr.op == Opcode::wait || instr.op == Opcode::notify) return true;
        if (instr.op == Opcode::deliver) return true;
        const auto reads = plan.reads(instr), writes = plan.writes(instr);
        return instr.op == Opcode::copy &&
               plan.buffers[reads[0].buffer].dtype == plan.buffers[writes[0].buffer].dtype &&
               in_vectors(plan, reads) && in_vectors(plan, writes);
      });
}

bool can_join(const Plan& plan, const RankProgram& program) {
  if (program.streams.size() != 2 || program.streams[1].kind != LaneKind::comm) return false;
  if (program.gemms.size() != 1 || program.moves.size() != 1) return false;
  if (program.needs.front().grouped || program.needs.front().library) return false;
  // The kernel is all that the rank runs: comm lanes could await what follows it, and it them.
  const std::vector<Step>& steps = program.streams[0].steps;
  if (steps.size() != 1 || steps.front().kind != StepKind::gemm) return false;
  return std::all_of(program.moves[0].begin(), program.moves[0].end(),
                     [&](const BlockPart& part) { return copies_vectors(plan, part); });
}

}  // namespace

void join_movers(const Plan& plan, std::vector<RankProgram>& programs) {
  const bool all = std::all_of(programs.begin(), programs.end(),
                               [&](const RankProgram& program) { return can_join(plan, program); });
  if (!all) return;
  for (RankProgram& program : programs) {
    program.streams.pop_back();
    program.needs.front().moves = true;
  }
}

}  // namespace stretto::cuda
