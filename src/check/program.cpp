#include "check/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "check/program_early.h"
#include "check/program_order.h"
#include "check/program_places.h"
#include "check/program_room.h"
#include "check/program_run.h"
#include "check/stream_clocks.h"
#include "launch/library_limits.h"
#include "launch/signal_layout.h"
#include "tables/plan_limits.h"

namespace stretto::checker {
namespace {

int most_blocks(const Plan& plan) {
  std::vector<int> blocks(static_cast<size_t>(plan.ranks()), 0);
  for (const Lane& lane : plan.lanes) {
    blocks[lane.rank] += lane.kind == LaneKind::compute || lane.kind == LaneKind::comm;
  }
  return *std::max_element(blocks.begin(), blocks.end());
}

// Why nothing can be made that streams would run. What can be made and is refused by GPUs all the
// same, in fp32 for example, is proved like any other.
std::string why_no_programs(const Plan& plan) {
  if (const int blocks = most_blocks(plan); blocks > plan.sms) {
    return fmt::format("it keeps {} SMs of a rank busy, and is for {}", blocks, plan.sms);
  }
  return cuda::why_too_many_counters(plan);
}

}  // namespace

std::string check_programs(const Plan& plan, const InstrIndex& index, const Counters& counters,
                           Findings& findings) {
  if (std::string why = why_no_programs(plan); !why.empty()) return why;
  const auto sums = std::make_shared<const cuda::TileSums>(plan);
  if (plan.any_library()) {
    if (std::string why = cuda::why_no_products(plan, *sums); !why.empty()) return why;
  }
  // Sums of ranges that no kernel of tiles makes would stand behind the kernel that awaits them.
  if (const std::optional<cuda::PlanLimit> limit = cuda::why_not_added(plan)) return limit->reason;
  check_programs(plan, index, counters, cuda::programs_of(plan, sums), findings);
  const std::vector<std::string> refused = cuda::why_not_on_cuda(plan, *sums);
  return refused.empty() ? "" : refused.front();
}

void check_programs(const Plan& plan, const InstrIndex& index, const Counters& counters,
                    const std::vector<cuda::RankProgram>& programs, Findings& findings) {
  const ProgramPlaces places(plan, programs, findings);
  std::vector<StreamClocks> clocks;
  for (size_t rank = 0; rank < programs.size(); ++rank) {
    clocks.emplace_back(plan, rank, programs[rank], findings);
  }
  check_program_room(plan, programs, findings);
  if (!findings.empty()) return;
  check_program_order(plan, index, counters, programs, places, clocks, findings);
  check_early_reads(plan, programs, findings);
  check_program_run(plan, index, counters, programs, places, findings);
}

std::vector<Diagnostic> check_programs(const Plan& plan,
                                       const std::vector<cuda::RankProgram>& programs) {
  const InstrIndex index(plan);
  Findings findings(100);
  check_programs(plan, index, Counters(plan, index), programs, findings);
  CheckReport report;
  findings.give(report);
  return std::move(report.diagnostics);
}

}  // namespace stretto::checker
