#include "sim/rank_kernels.h"

#include <algorithm>
#include <utility>

#include "launch/passes.h"
#include "launch/rank_program.h"

namespace stretto::sim {
namespace {

using Blocks = std::vector<cuda::BlockPart>;

bool is_boundary(const Instr& instr) { return instr.op == Opcode::boundary; }

// How many boundaries stand before what the blocks do.
size_t stretch_of(const Plan& plan, const Blocks& blocks) {
  const auto begin = plan.lanes[blocks.front().lane].instrs.begin();
  return static_cast<size_t>(std::count_if(begin, begin + blocks.front().begin, is_boundary));
}

uint32_t begin_of_stretch(const Lane& lane, size_t number) {
  auto at = lane.instrs.begin();
  for (; number > 0 && at != lane.instrs.end(); --number) {
    at = std::find_if(at, lane.instrs.end(), is_boundary);
    if (at != lane.instrs.end()) ++at;
  }
  return static_cast<uint32_t>(at - lane.instrs.begin());
}

const cuda::BlockPart* part_of(const Blocks& blocks, uint32_t lane) {  // they stand by lane
  const auto found =
      std::lower_bound(blocks.begin(), blocks.end(), lane,
                       [](const cuda::BlockPart& part, uint32_t at) { return part.lane < at; });
  return found != blocks.end() && found->lane == lane ? &*found : nullptr;
}

}  // namespace

RankKernels::RankKernels(const Plan& plan) : ends_(plan.lanes.size()), partition_blocks_(plan) {
  const std::vector<cuda::RankProgram> programs = cuda::kernels_of(plan);
  uint32_t next = 0;  // lanes stand rank by rank
  for (size_t rank = 0; rank < programs.size(); ++rank) {
    std::vector<uint32_t> compute_lanes;
    for (; next < plan.lanes.size() && plan.lanes[next].rank == rank; ++next) {
      if (plan.lanes[next].kind == LaneKind::compute) compute_lanes.push_back(next);
    }
    add(plan, programs[rank], compute_lanes);
  }
}

void RankKernels::add(const Plan& plan, const cuda::RankProgram& program,
                      const std::vector<uint32_t>& compute_lanes) {
  for (const cuda::StepStream& stream : program.streams) {
    if (!stream.steps.empty()) streams_ |= 1u << static_cast<unsigned>(stream.kind);
  }
  bool any_movers_behind = false, any_library = false;
  const Blocks* tiles = nullptr;  // of the step before, if that is a GEMM kernel of ours
  size_t stretch_of_tiles = 0;
  for (const cuda::Step& step : program.streams.front().steps) {
    const Blocks* const ahead = std::exchange(tiles, nullptr);
    if (step.kind != cuda::StepKind::gemm && step.kind != cuda::StepKind::move) continue;
    const bool multiplies = step.kind == cuda::StepKind::gemm;
    const Blocks& blocks = (multiplies ? program.gemms : program.moves)[step.index];
    const size_t stretch = multiplies ? program.behind[step.index] : stretch_of(plan, blocks);
    if (stretches_.size() <= stretch) stretches_.resize(stretch + 1);
    stretches_[stretch].has_kernels = true;
    if (multiplies) {
      stretches_[stretch].multiplies = true;
      const bool by_library = program.needs[step.index].library.has_value();
      any_library = any_library || by_library;
      tiles = by_library ? nullptr : &blocks;
      stretch_of_tiles = stretch;
      continue;
    }
    if (const int of_each = cuda::partition_blocks(plan, blocks); of_each > 0) {
      for (const cuda::BlockPart& part : blocks) {
        for (uint32_t at = part.begin; at < part.end; ++at) {
          partition_blocks_[plan.lanes[part.lane].instrs[at]] = of_each;
        }
      }
    }
    if (ahead == nullptr || stretch != stretch_of_tiles) continue;
    any_movers_behind = true;
    for (const uint32_t lane : compute_lanes) {
      const cuda::BlockPart* const tile = part_of(*ahead, lane);
      const cuda::BlockPart* const move = part_of(blocks, lane);
      ends_[lane].push_back(tile != nullptr   ? tile->end
                            : move != nullptr ? move->begin
                                              : begin_of_stretch(plan.lanes[lane], stretch));
    }
  }
  is_one_stream_ =
      is_one_stream_ && program.streams.size() == 1 && !any_movers_behind && !any_library;
}

}  // namespace stretto::sim
