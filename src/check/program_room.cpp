#include "check/program_room.h"

#include <fmt/format.h>

#include <algorithm>

#include "check/program_wording.h"
#include "check/wording.h"

namespace stretto::checker {
namespace {

using Blocks = std::vector<cuda::BlockPart>;

class RankRoom {
 public:
  RankRoom(const Plan& plan, size_t rank, const cuda::RankProgram& program, Findings& findings)
      : plan_(plan), rank_(rank), program_(program), findings_(findings) {}

  void check() {
    size_t all = 0;
    for (uint32_t s = 0; s < program_.streams.size(); ++s) {
      StepPlace largest{s, 0};
      size_t most = 0;
      for (uint32_t i = 0; i < program_.streams[s].steps.size(); ++i) {
        const size_t count = count_blocks({s, i});
        if (count > most) largest = {s, i};
        most = std::max(most, count);
      }
      all += most;
      if (most > 0) largest_.push_back(largest);
    }
    if (all > static_cast<size_t>(plan_.sms)) report_crowd(all);
    if (all >= static_cast<size_t>(plan_.sms) && has_host_lanes()) look_for_holders();
  }

 private:
  const cuda::Step& step(StepPlace place) const {
    return program_.streams[place.stream].steps[place.step];
  }
  template <typename Visit>
  void for_each_kernel(StepPlace place, const Visit& visit) const {
    const cuda::Step& step = this->step(place);
    if (step.kind == cuda::StepKind::move) visit(program_.moves[step.index]);
    if (step.kind != cuda::StepKind::gemm) return;
    visit(program_.gemms[step.index]);
    if (program_.movers[step.index]) visit(program_.moves[*program_.movers[step.index]]);
  }
  // A library's blocks end by themselves, however many they are.
  size_t count_blocks(StepPlace place) const {
    size_t count = 0;
    for_each_kernel(place, [&](const Blocks& blocks) { count += blocks.size(); });
    return count;
  }

  // Such streams are of their own kind, wherever their collectives have gone to.
  bool has_host_lanes() const {
    return std::any_of(program_.streams.begin(), program_.streams.end(),
                       [](const cuda::StepStream& stream) {
                         return stream.kind == LaneKind::copy || stream.kind == LaneKind::nccl;
                       });
  }

  void report_crowd(size_t blocks) {
    findings_.add(DiagnosticKind::program_not_resident, rank_, [&] {
      Diagnostic d;
      d.message =
          fmt::format("rank {} may run {} blocks at once for {} SMs: ", rank_, blocks, plan_.sms);
      for (size_t i = 0; i < largest_.size(); ++i) {
        d.message += (i == 0 ? "" : ", ") + at(plan_, program_, rank_, largest_[i]) +
                     fmt::format(" of {}",
                                 counted(static_cast<int64_t>(count_blocks(largest_[i])), "block"));
      }
      d.hint = "kernels that need not run side by side should be steps of one stream";
      return d;
    });
  }

  void look_for_holders() {
    for (uint32_t s = 0; s < program_.streams.size(); ++s) {
      for (uint32_t i = 0; i < program_.streams[s].steps.size(); ++i) {
        for_each_kernel({s, i}, [&](const Blocks& blocks) {
          for (const cuda::BlockPart& part : blocks) look_at({s, i}, part);
        });
      }
    }
  }
  void look_at(StepPlace place, const cuda::BlockPart& part) {
    const auto holds =
        std::find_if(part.at_end.begin(), part.at_end.end(),
                     [&](const cuda::Step& wait) { return wait.instr(plan_).lag == 0; });
    if (holds == part.at_end.end()) return;
    findings_.add(DiagnosticKind::program_not_resident, rank_, [&] {
      Diagnostic d;
      d.where = InstrRef{holds->lane, holds->position};
      d.message = fmt::format(
          "{}: a block of {} keeps its SM for it, where blocks may fill all {} and copy and nccl "
          "lanes need one",
          at(plan_, *d.where), at(plan_, program_, rank_, place), plan_.sms);
      d.hint = "the wait should be a step behind the kernel";
      return d;
    });
  }

  const Plan& plan_;
  size_t rank_;
  const cuda::RankProgram& program_;
  Findings& findings_;
  std::vector<StepPlace> largest_;  // of each stream that has kernels
};

}  // namespace

void check_program_room(const Plan& plan, const std::vector<cuda::RankProgram>& programs,
                        Findings& findings) {
  for (size_t rank = 0; rank < programs.size(); ++rank) {
    RankRoom(plan, rank, programs[rank], findings).check();
  }
}

}  // namespace stretto::checker
