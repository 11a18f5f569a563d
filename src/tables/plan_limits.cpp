#include "tables/plan_limits.h"

#include <fmt/format.h>

#include <algorithm>

#include "launch/buffer_places.h"
#include "launch/gemm_choice.h"
#include "launch/lane_pairs.h"
#include "launch/library_limits.h"
#include "launch/signal_layout.h"
#include "launch/tile_sums.h"
#include "plan/faults.h"
#include "plan/tile_task.h"
#include "tables/edge_calls.h"
#include "tables/lane_limits.h"
#include "tables/low_latency.h"

namespace stretto::cuda {
namespace {

// More than GPUs of many years to come have; sums of bytes below it do not overflow.
constexpr double kMostBytes = 1e15;

double bytes_of_rank(const Plan& plan) {
  double bytes = 0;
  for (const Buffer& buffer : plan.buffers) {
    bytes += static_cast<double>(row_bytes_of(buffer)) * buffer.rows * buffer.copies;
  }
  return bytes;
}

// The first task of a kind that no kernel does.
std::optional<PlanLimit> why_not_done(const Plan& plan) {
  for (uint32_t l = 0; l < plan.lanes.size(); ++l) {
    const std::vector<Instr>& instrs = plan.lanes[l].instrs;
    for (uint32_t at = 0; at < instrs.size(); ++at) {
      const TaskKind* const kind = instrs[at].kind();
      if (kind == nullptr || kind->kernels.by != KernelKind::none) continue;
      return PlanLimit{fmt::format("GPUs have no kernel for {} yet", to_string(instrs[at].op)),
                       InstrRef{l, at}};
    }
  }
  return std::nullopt;
}

// Beside routed rows, the first task that GPUs only do with a tile that they have in registers and
// that no tile has: the ring of those movers is for copies alone.
std::optional<PlanLimit> why_not_followed(const Plan& plan) {
  if (!plan.has_tables()) return std::nullopt;
  for (uint32_t l = 0; l < plan.lanes.size(); ++l) {
    const std::vector<Instr>& instrs = plan.lanes[l].instrs;
    for (uint32_t at = 0; at < instrs.size(); ++at) {
      if (!follows_product(instrs[at].op) || instrs[at].fused) continue;
      return PlanLimit{
          fmt::format(
              "beside routed rows GPUs do {} in the GEMM kernel only: fused, in the lane of "
              "a product, directly behind it, where nothing else touches what lies between "
              "in fp32",
              to_string(instrs[at].op)),
          InstrRef{l, at}};
    }
  }
  return std::nullopt;
}

// Why no GEMM kernel computes and adds all tiles between two boundaries; empty when one does.
std::string why_no_kernel(const Plan& plan, const GemmNeeds& needs, bool serves) {
  if (needs.library && !needs.grouped) return "";
  if (!needs.stored && needs.rows != 0) {
    return "all tiles between two boundaries must be written in one type";
  }
  if (!needs.grouped_alike) {
    return "all tiles between two boundaries have rows that choose their matrices, found alike, or "
           "none has";
  }
  if (!needs.scatter_alike) {
    return "all tiles between two boundaries are of an output whose rows are a partition's, or "
           "none is";
  }
  if (!needs.follow_alike) {
    return "the same activation follows all tiles between two boundaries, or none does";
  }
  if (needs.library) return "";
  if (std::string why = why_no_tile(needs, serves); !why.empty()) return why;
  if (needs.grouped) return why_illegal(config_for(plan, needs, serves));
  if (!needs.sources && (!needs.splits || needs.adds == 0)) return "";
  return why_illegal(config_for(plan, needs, serves));
}

}  // namespace

std::optional<PlanLimit> why_not_added(const Plan& plan) {
  for (uint32_t l = 0; l < plan.lanes.size(); ++l) {
    const Lane& lane = plan.lanes[l];
    const Instr* gemm = nullptr;  // the task before, if it is one of the GEMM kernel
    size_t boundaries = 0;
    for (uint32_t at = 0; at < lane.instrs.size(); ++at) {
      const Instr& instr = lane.instrs[at];
      if (instr.is_sync()) continue;
      if (gemm != nullptr && !instr.fused && adds_ranges(plan, lane.rank, *gemm, instr)) {
        return PlanLimit{
            "a tile whose K is split has its rows of A in one region and columns in multiples "
            "of 8, nobody else reads its sums, and where a lane computes several ranges they "
            "are the first ones, in their order, with nothing but waits between and before "
            "their sum, which is fused: take tiles that no shard's or chunk's end cuts, or "
            "split-k=1",
            InstrRef{l, at}};
      }
      boundaries += instr.op == Opcode::boundary;
      gemm = instr.op == Opcode::gemm && !plan.library_at(boundaries) ? &instr : nullptr;
    }
  }
  return std::nullopt;
}

std::vector<PlanLimit> limits_on_cuda(const Plan& plan, const TileSums& sums, bool serves) {
  if (std::optional<PlanLimit> limit = why_not_done(plan)) return {std::move(*limit)};
  // A false word would not show before results are wrong.
  if (PlanFault fault = fault_in_fused(plan); !fault.what.empty()) {
    return {{std::move(fault.what),
             InstrRef{static_cast<uint32_t>(*fault.lane), static_cast<uint32_t>(*fault.instr)}}};
  }
  if (std::optional<PlanLimit> limit = why_not_followed(plan)) return {std::move(*limit)};
  LimitList limits;
  if (plan.op.dtype == DType::fp32) {
    limits.add("the GEMM kernel multiplies bf16 and fp16, not fp32: take dtype=bf16 or fp16");
  }
  if (serves && plan.has_tables()) {
    limits.add("tasks that go by tables do all of their rows: take rows=fixed");
  }
  if (plan.any_library()) {
    if (serves && !plan.low_latency_collectives) {
      limits.add(
          "a library does not multiply fewer rows than the plan's where NCCL moves them: take "
          "rows=fixed or collectives=low-latency");
    }
    if (serves && plan.any_few_rows()) {
      limits.add(
          "the kernel of few rows sends all rows of a plan: take rows=fixed or gemm=library");
    }
    if (std::string why = why_no_products(plan, sums); !why.empty()) limits.add(std::move(why));
  }
  if (plan.low_latency_collectives) {
    if (std::string why = why_no_low_latency(plan, serves); !why.empty())
      limits.add(std::move(why));
  }
  if (std::string why = why_no_edge_calls(plan, serves); !why.empty()) limits.add(std::move(why));
  if (std::string why = why_too_many_counters(plan); !why.empty()) limits.add(std::move(why));
  if (const double bytes = bytes_of_rank(plan); bytes > kMostBytes) {
    limits.add(
        fmt::format("the buffers of a rank take {:.1e} bytes, GPUs have at most {:.0e}: take a "
                    "smaller shape, or "
                    "fewer rows, columns or copies",
                    bytes, kMostBytes));
  }
  if (num_sets(plan) > kMostSets) {
    limits.add(fmt::format(
        "buffers alternate between numbers of copies that come together again after more than {} "
        "runs: take copies that divide one another",
        kMostSets));
  }
  if (std::optional<PlanLimit> limit = why_not_added(plan)) {
    limits.add(std::move(limit->reason), limit->where);
  } else {
    for (const GemmNeeds& needs : sums.needs()) {
      if (std::string why = why_no_kernel(plan, needs, serves); !why.empty()) {
        limits.add(std::move(why));
      }
    }
  }
  add_lane_limits(plan, sums, serves, limits);
  if (plan.cluster > 1) {
    if (serves) limits.add("clusters compute all rows: a plan with cluster=1 serves fewer");
    // Asked of plans that single blocks could run.
    if (limits.empty()) {
      if (std::string why = why_no_pairs(plan, sums); !why.empty()) limits.add(std::move(why));
    }
  }
  return std::move(limits).take();
}

std::vector<std::string> why_not_on_cuda(const Plan& plan, const TileSums& sums, bool serves) {
  std::vector<std::string> reasons;
  for (PlanLimit& limit : limits_on_cuda(plan, sums, serves)) {
    reasons.push_back(std::move(limit.reason));
  }
  return reasons;
}

std::vector<std::string> why_not_on_cuda(const Plan& plan) {
  return why_not_on_cuda(plan, TileSums(plan));
}

std::string why_not_on_arch(std::string_view arch) {
  if (arch == "sm_90a") return "";
  return fmt::format("plans run on Hopper GPUs (sm_90a); this one is {}", arch);
}

}  // namespace stretto::cuda
