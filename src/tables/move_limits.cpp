#include "tables/move_limits.h"

#include <fmt/format.h>

#include <algorithm>

#include "plan/normed_rows.h"
#include "plan/tile_task.h"
#include "tables/routed_kinds.h"

namespace stretto::cuda {
namespace {

// Kernels count them, and a little further, in 32 bits.
std::string why_too_many_elements(const Plan& plan, const Instr& move) {
  if (plan.reads(move)[0].elements() <= INT32_MAX) return {};
  return fmt::format(
      "a block moves at most {} elements at once: take more comm-sms or granularity=tile",
      INT32_MAX);
}

// What a mover reads is of one type, and so is what it writes.
std::string why_of_several_types(const Plan& plan, const Instr& move) {
  const auto is_of_one = [&](std::span<const Region> regions) {
    return std::all_of(regions.begin(), regions.end(), [&](const Region& region) {
      return plan.buffers[region.buffer].dtype == plan.buffers[regions[0].buffer].dtype;
    });
  };
  if (is_of_one(plan.reads(move)) && is_of_one(plan.writes(move))) return {};
  return "a mover reads one type and writes one type";
}

}  // namespace

void MoveLimits::look_at(const InstrRef& at, bool by_mover, LimitList& limits) const {
  const Instr& instr = plan_.lanes[at.lane].instrs[at.pos];
  const auto add = [&](std::string why) {
    if (!why.empty()) limits.add(std::move(why), at);
  };
  if (instr.kind() == nullptr) return;
  const KernelKind kernel = instr.kind()->kernels.by;
  const bool is_elementwise = kernel == KernelKind::elements;
  // What follows a product is of a tile, unless a mover does it.
  if (is_elementwise && (by_mover || !follows_product(instr.op))) {
    add(why_too_many_elements(plan_, instr));
  }
  if (is_elementwise && by_mover) add(why_of_several_types(plan_, instr));
  if (kernel == KernelKind::norm) add(why_no_norm(plan_, {nullptr, &instr, instr.attribute()}));
  if (has_tables_ && is_routed_move(instr.op)) add(why_no_routed_task(plan_, instr));
}

}  // namespace stretto::cuda
