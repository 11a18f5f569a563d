// Where programs have each instruction of a plan.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "check/findings.h"
#include "check/program_wording.h"
#include "launch/rank_program.h"
#include "stretto/plan.h"

namespace stretto::checker {

// Instructions [begin, end) of a lane that a step of its rank makes: a block of its kernel in their
// order, or the step itself.
struct Piece {
  uint32_t begin = 0, end = 0;
  StepPlace at;
  // Waits apart from what else their lane does there: a step, or made at the end of some block.
  // They may come as early as they like.
  bool is_wait = false;
};

class ProgramPlaces {
 public:
  // Reports tasks that no kernel and no step makes, what two make, and what none can make where it
  // stands. With any of it, places are not to be relied on.
  ProgramPlaces(const Plan& plan, const std::vector<cuda::RankProgram>& programs,
                Findings& findings);

  // In the lane's order, none before the end of another. Between them are boundaries, delivers, and
  // waits and notifies that something else has to stand for.
  std::span<const Piece> of(uint32_t lane) const { return pieces_[lane]; }
  // Null: none has the instruction.
  const Piece* find(uint32_t lane, uint32_t pos) const;

 private:
  void add(size_t rank, StepPlace place, Findings& findings);
  void add_kernel(size_t rank, StepPlace place, const std::vector<cuda::BlockPart>& blocks,
                  bool tells, Findings& findings);
  void add_step(size_t rank, StepPlace place, Findings& findings);
  void check_lane(uint32_t lane, Findings& findings);
  bool is_of(size_t rank, uint32_t lane, uint32_t end) const;
  std::string step_at(size_t rank, StepPlace place) const {
    return at(plan_, programs_[rank], rank, place);
  }

  const Plan& plan_;
  const std::vector<cuda::RankProgram>& programs_;
  std::vector<std::vector<Piece>> pieces_;  // by lane
};

}  // namespace stretto::checker
