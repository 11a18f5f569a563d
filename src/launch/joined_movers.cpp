#include "launch/joined_movers.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

#include "launch/kernel_progress.h"
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

const std::vector<BlockPart>& comm_lanes(const RankProgram& program) {
  return program.moves[program.streams[1].steps.front().index];
}

// Comm lanes are all that the rank has beside the compute lanes' stream.
bool may_join(const Plan& plan, const RankProgram& program) {
  if (program.streams.size() != 2 || program.streams[1].kind != LaneKind::comm) return false;
  const std::vector<BlockPart>& comm = comm_lanes(program);
  return !program.gemms.empty() && std::all_of(comm.begin(), comm.end(), [&](const auto& part) {
    return copies_vectors(plan, part);
  });
}

// By block: its parts, in the order of the GEMM kernels that have them.
using Cut = std::vector<std::pair<uint32_t, BlockPart>>;

// What comm lanes do goes to the first GEMM kernel behind all that the lane has awaited by then.
class MoverCutter {
 public:
  explicit MoverCutter(const Plan& plan) : plan_(plan), counters_(plan, plan.ranks()) {
    told_behind_.assign(counters_.num_counters(), 0);
    for (const Lane& lane : plan.lanes) {
      uint32_t boundaries = 0;
      for (const Instr& instr : lane.instrs) {
        boundaries += instr.op == Opcode::boundary;
        if (instr.op != Opcode::notify) continue;
        uint32_t& behind = told_behind_[counters_.counter(instr.rank, instr)];
        behind = lane.kind == LaneKind::compute ? std::max(behind, boundaries + 1) : kNever;
      }
    }
  }

  // Nothing where there is no such kernel, or one that cannot have movers.
  std::optional<Cut> cut(size_t rank, const RankProgram& program) const {
    const std::vector<uint32_t>& behind = program.behind;
    Cut cut;
    for (const BlockPart& lane : comm_lanes(program)) {
      uint32_t kernel = 0, first = lane.begin;
      for (uint32_t at = lane.begin; at < lane.end; ++at) {
        const Instr& instr = plan_.lanes[lane.lane].instrs[at];
        if (instr.op != Opcode::wait || instr.lag > 0) continue;
        const uint32_t least = told_behind_[counters_.counter(rank, instr)];
        uint32_t next = kernel;
        while (next < behind.size() && behind[next] < least) ++next;
        if (next == behind.size()) return std::nullopt;
        if (next != kernel && first < at) cut.push_back({kernel, {lane.lane, first, at, {}}});
        if (next != kernel) first = at;
        kernel = next;
      }
      cut.push_back({kernel, {lane.lane, first, lane.end, {}}});
    }
    const bool all = std::all_of(cut.begin(), cut.end(), [&](const auto& part) {
      const GemmNeeds& needs = program.needs[part.first];
      return !needs.grouped && !needs.library && !needs.norms;
    });
    return all ? std::optional(std::move(cut)) : std::nullopt;
  }

 private:
  static constexpr uint32_t kNever = 1u << 30;

  const Plan& plan_;
  const EnqueuedKernels counters_;
  // By counter: behind so many boundaries compute lanes have told all of it.
  std::vector<uint32_t> told_behind_;
};

// A run that is one kernel: its movers may await its tiles, and these them.
Cut all_in_first(const RankProgram& program) {
  Cut cut;
  for (const BlockPart& lane : comm_lanes(program)) cut.push_back({0, lane});
  return cut;
}

void join(const Cut& cut, RankProgram& program) {
  const auto comm = program.streams[1].steps.front().index;  // the last of the movers
  program.streams.pop_back();
  program.moves.resize(comm);
  for (uint32_t kernel = 0; kernel < program.gemms.size(); ++kernel) {
    std::vector<BlockPart> blocks;
    for (const auto& [of, part] : cut) {
      if (of == kernel) blocks.push_back(part);
    }
    if (blocks.empty()) continue;
    program.movers[kernel] = static_cast<uint32_t>(program.moves.size());
    program.needs[kernel].moves = true;
    program.moves.push_back(std::move(blocks));
  }
}

// Whether all ranks' streams come to their ends, kernel by kernel.
bool all_end(const Plan& plan, const std::vector<RankProgram>& programs) {
  EnqueuedKernels kernels(plan, programs.size());
  std::vector<size_t> at(programs.size(), 0);
  std::vector<std::deque<KernelProgress>> running(programs.size());
  const auto begin = [&](size_t rank, const Step& step) {
    const RankProgram& program = programs[rank];
    if (step.kind == StepKind::wait) return kernels.has_come(rank, step.instr(plan));
    if (step.kind == StepKind::notify) kernels.tell(step.instr(plan));
    const auto start = [&](const std::vector<BlockPart>& blocks) {
      kernels.start(rank, blocks, running[rank].emplace_back());
    };
    if (step.kind == StepKind::move) start(program.moves[step.index]);
    if (step.kind != StepKind::gemm) return true;
    start(program.gemms[step.index]);
    if (const auto movers = program.movers[step.index]) start(program.moves[*movers]);
    return true;
  };
  for (bool moved = true; moved;) {
    moved = false;
    kernels.go_on();
    for (size_t rank = 0; rank < programs.size(); ++rank) {
      const std::vector<Step>& steps = programs[rank].streams[0].steps;
      const auto ended = [](const KernelProgress& kernel) { return kernel.has_ended; };
      while (at[rank] < steps.size() &&
             std::all_of(running[rank].begin(), running[rank].end(), ended) &&
             begin(rank, steps[at[rank]])) {
        ++at[rank];
        moved = true;
      }
    }
  }
  for (size_t rank = 0; rank < programs.size(); ++rank) {
    if (at[rank] < programs[rank].streams[0].steps.size()) return false;
    for (const KernelProgress& kernel : running[rank]) {
      if (!kernel.has_ended) return false;
    }
  }
  return true;
}

}  // namespace

void join_movers(const Plan& plan, std::vector<RankProgram>& programs) {
  const bool all = std::all_of(programs.begin(), programs.end(),
                               [&](const RankProgram& program) { return may_join(plan, program); });
  if (!all) return;
  const auto is_one_kernel = [](const RankProgram& program) {
    const std::vector<Step>& steps = program.streams[0].steps;
    return steps.size() == 1 && steps.front().kind == StepKind::gemm &&
           !program.needs.front().grouped && !program.needs.front().library &&
           !program.needs.front().norms;
  };
  std::vector<RankProgram> joined = programs;
  if (std::all_of(programs.begin(), programs.end(), is_one_kernel)) {
    for (RankProgram& program : joined) join(all_in_first(program), program);
    programs = std::move(joined);
    return;
  }
  const MoverCutter cutter(plan);
  for (size_t rank = 0; rank < programs.size(); ++rank) {
    const std::optional<Cut> cut = cutter.cut(rank, programs[rank]);
    if (!cut) return;
    join(*cut, joined[rank]);
  }
  if (all_end(plan, joined)) programs = std::move(joined);
}

}  // namespace stretto::cuda
