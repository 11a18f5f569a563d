#include "check/program_places.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "check/wording.h"

namespace stretto::checker {
namespace {

using cuda::BlockPart;
using cuda::StepKind;

// What the step of an instruction may be.
constexpr std::pair<StepKind, Opcode> kStepsOf[] = {{StepKind::wait, Opcode::wait},
                                                    {StepKind::notify, Opcode::notify},
                                                    {StepKind::copy, Opcode::copy},
                                                    {StepKind::collective, Opcode::collective},
                                                    {StepKind::route, Opcode::route}};

bool is_step_of(StepKind kind, Opcode op) {
  return std::find(std::begin(kStepsOf), std::end(kStepsOf), std::pair(kind, op)) !=
         std::end(kStepsOf);
}

// No block makes these.
bool is_for_blocks(const Instr& instr) {
  return instr.op != Opcode::boundary && instr.op != Opcode::collective;
}

bool runs(const Instr& instr) { return instr.is_task() && instr.op != Opcode::deliver; }

}  // namespace

ProgramPlaces::ProgramPlaces(const Plan& plan, const std::vector<cuda::RankProgram>& programs,
                             Findings& findings)
    : plan_(plan), programs_(programs), pieces_(plan.lanes.size()) {
  for (size_t rank = 0; rank < programs.size(); ++rank) {
    const std::vector<cuda::StepStream>& streams = programs[rank].streams;
    for (uint32_t s = 0; s < streams.size(); ++s) {
      for (uint32_t i = 0; i < streams[s].steps.size(); ++i) add(rank, {s, i}, findings);
    }
  }
  for (uint32_t lane = 0; lane < pieces_.size(); ++lane) check_lane(lane, findings);
}

const Piece* ProgramPlaces::find(uint32_t lane, uint32_t pos) const {
  const std::vector<Piece>& pieces = pieces_[lane];
  const auto behind = std::upper_bound(pieces.begin(), pieces.end(), pos,
                                       [](uint32_t at, const Piece& p) { return at < p.begin; });
  if (behind == pieces.begin() || pos >= (behind - 1)->end) return nullptr;
  return &*(behind - 1);
}

bool ProgramPlaces::is_of(size_t rank, uint32_t lane, uint32_t end) const {
  return lane < plan_.lanes.size() && plan_.lanes[lane].rank == rank &&
         end <= plan_.lanes[lane].instrs.size();
}

void ProgramPlaces::add(size_t rank, StepPlace place, Findings& findings) {
  const cuda::RankProgram& program = programs_[rank];
  const cuda::Step& step = program.streams[place.stream].steps[place.step];
  switch (step.kind) {
    case StepKind::gemm:
      add_kernel(rank, place, program.gemms[step.index], !program.needs[step.index].library,
                 findings);
      if (const std::optional<uint32_t> movers = program.movers[step.index]) {
        add_kernel(rank, place, program.moves[*movers], true, findings);
      }
      return;
    case StepKind::move:
      return add_kernel(rank, place, program.moves[step.index], true, findings);
    case StepKind::record:
    case StepKind::await:
      return;
    case StepKind::wait:
    case StepKind::notify:
    case StepKind::copy:
    case StepKind::collective:
    case StepKind::route:
      return add_step(rank, place, findings);
  }
}

void ProgramPlaces::add_step(size_t rank, StepPlace place, Findings& findings) {
  const cuda::Step& step = programs_[rank].streams[place.stream].steps[place.step];
  const bool is_right =
      is_of(rank, step.lane, step.position + 1) && is_step_of(step.kind, step.instr(plan_).op);
  if (is_right) {
    pieces_[step.lane].push_back(
        {step.position, step.position + 1, place, step.kind == StepKind::wait});
    return;
  }
  findings.add(DiagnosticKind::misplaced_instruction, rank, [&] {
    Diagnostic d;
    d.message = fmt::format("rank {} stream {} step {} is none that its instruction can be", rank,
                            place.stream, place.step);
    d.hint = "a step should have an instruction of its rank, and of its kind";
    return d;
  });
}

void ProgramPlaces::add_kernel(size_t rank, StepPlace place, const std::vector<BlockPart>& blocks,
                               bool tells, Findings& findings) {
  const auto refuse = [&](std::optional<InstrRef> where, const char* why) {
    findings.add(DiagnosticKind::misplaced_instruction, rank, [&] {
      Diagnostic d;
      d.where = where;
      d.message =
          fmt::format("{}{} {}", where ? at(plan_, *where) + ": " : "", step_at(rank, place), why);
      d.hint = "a block should have instructions of one lane of its rank between two boundaries";
      return d;
    });
  };
  for (const BlockPart& part : blocks) {
    if (part.begin > part.end || !is_of(rank, part.lane, part.end)) {
      refuse(std::nullopt, "has a block of a lane that its rank lacks");
      continue;
    }
    const std::vector<Instr>& instrs = plan_.lanes[part.lane].instrs;
    for (uint32_t pos = part.begin; pos < part.end; ++pos) {
      if (!is_for_blocks(instrs[pos])) refuse(InstrRef{part.lane, pos}, "has it in a block");
      if (!tells && instrs[pos].is_sync()) {
        refuse(InstrRef{part.lane, pos}, "multiplies whole products, and awaits and tells nobody");
      }
    }
    if (part.begin < part.end) pieces_[part.lane].push_back({part.begin, part.end, place});
    for (const cuda::Step& wait : part.at_end) {
      if (!is_of(rank, wait.lane, wait.position + 1) || wait.instr(plan_).op != Opcode::wait) {
        refuse(std::nullopt, "has a block that ends with what is no wait of its rank");
        continue;
      }
      pieces_[wait.lane].push_back({wait.position, wait.position + 1, place, true});
    }
  }
}

void ProgramPlaces::check_lane(uint32_t lane, Findings& findings) {
  std::vector<Piece>& pieces = pieces_[lane];
  const std::vector<Instr>& instrs = plan_.lanes[lane].instrs;
  const uint16_t rank = plan_.lanes[lane].rank;
  std::sort(pieces.begin(), pieces.end(),
            [](const Piece& a, const Piece& b) { return a.begin < b.begin; });
  uint32_t end = 0;
  const auto pass_gap = [&](uint32_t begin) {
    for (; end < begin; ++end) {
      if (!runs(instrs[end])) continue;
      findings.add(DiagnosticKind::misplaced_instruction, uint64_t{rank} << 32 | 1, [&] {
        Diagnostic d;
        d.where = InstrRef{lane, end};
        d.message = fmt::format("{} is in no kernel and no step of rank {}'s program",
                                at(plan_, *d.where), rank);
        d.hint = "one of them should have it, behind what stands before it in its lane";
        return d;
      });
    }
  };
  for (size_t i = 0; i < pieces.size(); ++i) {
    pass_gap(pieces[i].begin);
    if (pieces[i].begin < end) {
      findings.add(DiagnosticKind::misplaced_instruction, uint64_t{rank} << 32 | 2, [&] {
        Diagnostic d;
        d.where = InstrRef{lane, pieces[i].begin};
        d.message = fmt::format("{} is made twice: at {} and at {}", at(plan_, *d.where),
                                step_at(rank, pieces[i - 1].at), step_at(rank, pieces[i].at));
        d.hint = "one of them should leave it to the other";
        return d;
      });
    }
    end = std::max(end, pieces[i].end);
  }
  pass_gap(static_cast<uint32_t>(instrs.size()));
}

}  // namespace stretto::checker
