#include "run/plan_fit.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/text.h"
#include "launch/shared_streams.h"
#include "stretto/check.h"
#include "stretto/error.h"
#include "stretto/serve.h"
#include "tables/plan_limits.h"

namespace stretto::runtime {
namespace {

// By rank: its blocks, each of which keeps an SM busy.
std::vector<int> blocks_by_rank(const Plan& plan) {
  std::vector<int> blocks(static_cast<size_t>(plan.ranks()), 0);
  for (const Lane& lane : plan.lanes) {
    if (lane.kind == LaneKind::compute || lane.kind == LaneKind::comm) ++blocks[lane.rank];
  }
  return blocks;
}

int most_blocks(const Plan& plan) {
  const std::vector<int> blocks = blocks_by_rank(plan);
  return *std::max_element(blocks.begin(), blocks.end());
}

}  // namespace

const Plan& require_runnable(const Plan& plan, const cuda::TileSums& sums, bool serves) {
  if (const auto reasons = cuda::why_not_on_cuda(plan, sums, serves); !reasons.empty()) {
    throw UsageError("this plan cannot run on GPUs: " + join(reasons, "; "));
  }
  if (!serves) return plan;
  if (const auto reasons = why_not_served(plan); !reasons.empty()) {
    throw UsageError(
        fmt::format("this plan serves {} rows only: {}", plan.op.rows(), join(reasons, "; ")));
  }
  return plan;
}

void require_fits(const Plan& plan, const std::vector<cuda::RankProgram>& programs,
                  const fabric::Fabric& fabric) {
  if (plan.ranks() != fabric.ranks()) {
    throw UsageError(fmt::format("a plan of {} ranks on {} GPUs", plan.ranks(), fabric.ranks()));
  }
  if (const auto reasons = cuda::why_not_shared(plan, programs, fabric.ranks_a_gpu());
      !reasons.empty()) {
    throw UsageError("this plan cannot run on shared GPUs: " + join(reasons, "; "));
  }
  const cuda::Device& device = fabric.device(fabric.first_rank());
  if (const auto why = cuda::why_not_on_arch(device.arch()); !why.empty()) throw SystemError(why);
  const int sms = device.num_sms(), blocks = most_blocks(plan);
  if (blocks > sms) {
    throw UsageError(fmt::format(
        "the plan keeps {} SMs busy, {} has {}: lower it for a machine with sms={}", blocks,
        device.ranks() > 1 ? "a rank that shares its GPU" : "this GPU", sms, sms));
  }
  if (const auto found = why_not_resident(plan, sms); !found.empty()) {
    throw UsageError(
        fmt::format("this plan could hang: {}: {}", found.front().message, found.front().hint));
  }
}

int sms_left(const Plan& plan, const cuda::Device& device) {
  return std::max(0, std::min(device.num_sms(), plan.sms - most_blocks(plan)));
}

}  // namespace stretto::runtime
