#include "check/program_wording.h"

#include <fmt/format.h>

#include "check/wording.h"

namespace stretto::checker {
namespace {

std::string what_is(const Plan& plan, const cuda::Step& step) {
  switch (step.kind) {
    case cuda::StepKind::gemm:
      return fmt::format("gemm kernel {}", step.index);
    case cuda::StepKind::move:
      return fmt::format("move kernel {}", step.index);
    case cuda::StepKind::record:
      return fmt::format("record of event {}", step.index);
    case cuda::StepKind::await:
      return fmt::format("await of event {}", step.index);
    case cuda::StepKind::wait:
    case cuda::StepKind::notify:
    case cuda::StepKind::copy:
    case cuda::StepKind::collective:
    case cuda::StepKind::route:
      break;
  }
  return checker::what(plan, InstrRef{step.lane, step.position});
}

}  // namespace

std::string at(const Plan& plan, const cuda::RankProgram& program, size_t rank, StepPlace place) {
  return fmt::format("rank {} stream {} step {} ({})", rank, place.stream, place.step,
                     what_is(plan, program.streams[place.stream].steps[place.step]));
}

}  // namespace stretto::checker
