#include "cuda/plan_limits.h"

#include <fmt/format.h>

#include <algorithm>

#include "cuda/gemm_choice.h"
#include "cuda/lane_pairs.h"
#include "cuda/library_products.h"
#include "cuda/low_latency.h"
#include "cuda/tensor_map.h"
#include "cuda/tile_sums.h"

namespace stretto::cuda {

namespace {

// What a tile's task has of each; its fields have a byte for each.
struct InARow {
  size_t waits = 0, notifies = 0, destinations = 0;

  void raise_to(const InARow& other) {
    waits = std::max(waits, other.waits);
    notifies = std::max(notifies, other.notifies);
    destinations = std::max(destinations, other.destinations);
  }
};

// Of the task that begins with the gemm `first`, has the whole tile behind the gemm `at`, and ends
// with the instruction `last`. Syncs of lanes that are no longer need not be counted.
InARow in_a_row(const Lane& lane, uint32_t first, uint32_t at, uint32_t last) {
  InARow row;
  for (uint32_t i = at; i <= last; ++i) {
    if (!lane.instrs[i].is_task()) continue;
    row.destinations = std::max<size_t>(row.destinations, lane.instrs[i].num_writes);
  }
  if (lane.instrs.size() <= UINT8_MAX) return row;
  for (uint32_t i = first; i > 0 && lane.instrs[i - 1].op == Opcode::wait; --i) ++row.waits;
  for (uint32_t i = first; i < last; ++i) {
    row.waits += lane.instrs[i].op == Opcode::wait;
    row.notifies += lane.instrs[i].op == Opcode::notify;
  }
  for (uint32_t i = last + 1; i < lane.instrs.size() && lane.instrs[i].op == Opcode::notify; ++i) {
    ++row.notifies;
  }
  return row;
}

// Why no task can have them; empty when it can.
std::string why_too_many(const InARow& most) {
  const auto why = [](size_t count, std::string_view what, std::string_view right) {
    return fmt::format("a tile has {} {}, a task on the GPU at most {}: take {}", count, what,
                       UINT8_MAX, right);
  };
  constexpr const char* kFewerOwners =
      "tiles of fewer rows, fewer ranks, or reduction=two-shot instead of one-shot";
  if (most.waits > UINT8_MAX) {
    return why(most.waits, "waits", "sync=counter, or fewer comm-sms or k-phases");
  }
  if (most.destinations > UINT8_MAX) return why(most.destinations, "destinations", kFewerOwners);
  if (most.notifies > UINT8_MAX) return why(most.notifies, "notifies", kFewerOwners);
  return "";
}

// Hosts and GPUs keep a few words for each.
constexpr int64_t kMostCounters = int64_t{1} << 26;

int64_t num_counters(const Plan& plan) {
  int64_t count = 0;
  for (const SignalArray& array : plan.signals) count += int64_t{array.count} * array.copies;
  return count * plan.ranks();
}

// Addresses of whole buffers suit; how far apart their rows are is the plan's.
std::string why_no_map(const Buffer& buffer) {
  Matrix matrix;
  matrix.rows = std::max(buffer.rows, 1);
  matrix.columns = matrix.stride = buffer.cols;
  matrix.dtype = buffer.dtype;
  return why_unmappable(matrix);
}

}  // namespace

std::vector<std::string> why_not_on_cuda(const Plan& plan) {
  return why_not_on_cuda(plan, TileSums(plan));
}

std::vector<std::string> why_not_on_cuda(const Plan& plan, const TileSums& sums, bool serves) {
  std::vector<std::string> reasons;
  const auto add = [&](std::string reason) {
    if (std::find(reasons.begin(), reasons.end(), reason) == reasons.end()) {
      reasons.push_back(std::move(reason));
    }
  };
  if (plan.op.dtype == DType::fp32) {
    add("the GEMM kernel multiplies bf16 and fp16, not fp32: take dtype=bf16 or fp16");
  }
  if (plan.library_gemms) {
    if (serves && !plan.low_latency_collectives) {
      add("a library does not multiply fewer rows than the plan's where NCCL moves them: take "
          "rows=fixed or collectives=low-latency");
    }
    if (const std::string why = why_no_products(plan); !why.empty()) add(why);
  }
  if (plan.low_latency_collectives) {
    if (const std::string why = why_no_low_latency(plan, serves); !why.empty()) add(why);
  }
  if (const int64_t counters = num_counters(plan); counters > kMostCounters) {
    constexpr const char* kTooMany =
        "the signals of all ranks have {} counters, GPUs at most {}: take larger tiles or fewer "
        "ranks";
    add(fmt::format(kTooMany, counters, kMostCounters));
  }
  const GemmNeeds& needs = sums.needs();
  std::vector<uint8_t> is_mapped(plan.buffers.size(), false);  // by the GEMM kernel
  if (!sums.ranges_misfit().empty()) {
    add(sums.ranges_misfit());
  } else if (!needs.stored && needs.rows != 0) {
    add("all tiles of a plan must be written in one type");
  } else if (const std::string why = why_no_tile(needs, serves);
             !why.empty() && !plan.library_gemms) {
    add(why);
  } else if (sums.any_ranges_kept() && sums.sources() > 0) {
    const std::string illegal = why_illegal(config_for(plan, sums, needs, serves));
    if (!illegal.empty()) add(illegal);
  }
  InARow most;
  for (uint32_t l = 0; l < plan.lanes.size(); ++l) {
    const Lane& lane = plan.lanes[l];
    if (lane.kind != LaneKind::compute && lane.kind != LaneKind::comm) continue;
    // Between two boundaries:
    bool waited = false, worked = false, moved = false, told_early = false;
    uint32_t summed = 0;  // reduces up to here are made by the last tile's task
    for (uint32_t at = 0; at < lane.instrs.size(); ++at) {
      const Instr& instr = lane.instrs[at];
      if (instr.op == Opcode::boundary) waited = worked = moved = told_early = false;
      waited = waited || instr.op == Opcode::wait;
      told_early = told_early || (instr.op == Opcode::notify && waited && !worked);
      worked = worked || instr.is_task();
      moved = moved || (instr.op == Opcode::reduce && at > summed) || instr.op == Opcode::copy;
      if (instr.op == Opcode::reduce || instr.op == Opcode::copy) {
        // Kernels count them, and a little further, in 32 bits.
        if (plan.reads(instr)[0].elements() > INT32_MAX) {
          constexpr const char* kTooLarge =
              "a block moves at most {} elements at once: take more comm-sms or granularity=tile";
          add(fmt::format(kTooLarge, INT32_MAX));
        }
      }
      if (instr.op != Opcode::gemm || plan.library_gemms) continue;
      const std::span<const Region> reads = plan.reads(instr);
      for (const Region& region : std::span(reads.data(), reads.size() + instr.num_writes)) {
        if (is_mapped[region.buffer]) continue;
        is_mapped[region.buffer] = true;
        const std::string why = why_no_map(plan.buffers[region.buffer]);
        if (!why.empty()) add(why);
      }
      if (reads.front().col1 > device::kTileK * UINT16_MAX) {
        add(fmt::format("a range of K must end at {} or before: take a smaller k",
                        device::kTileK * UINT16_MAX));
      }
      const TileSum sum = sums.of(l, at);
      const uint32_t first = sum.of_ranges != 0 ? sum.first : at;
      most.raise_to(in_a_row(lane, first, at, sum ? sum.position : at));
      if (sum) {
        summed = sum.position;
        if (sum.of_ranks != 0 && lane.instrs[summed].num_reads != sums.sources() + 1) {
          add("all tiles must be added to equally many sums of others");
        }
        if (serves && sum.stores_before()) {
          add("runs of fewer rows add to whole tiles only; rows=bucket cuts them at owners");
        }
      }
      if (moved) add("between boundaries a compute lane moves data only after its last tile");
      if (told_early) add("a compute lane notifies at a boundary or after a task");
      for (const Region& read : reads) {
        if (read.col0 % device::kTileK == 0 && read.col0 == reads.front().col0) continue;
        add(fmt::format("a range of K must start at a multiple of {}, the same in A and B",
                        device::kTileK));
      }
    }
  }
  if (const std::string why = why_too_many(most); !why.empty()) add(why);
  if (plan.cluster > 1) {
    if (serves) add("clusters compute all rows: a plan with cluster=1 serves fewer");
    if (reasons.empty()) {
      if (const std::string why = why_no_pairs(plan, sums); !why.empty()) add(why);
    }
  }
  return reasons;
}

std::string why_not_on_arch(std::string_view arch) {
  if (arch == "sm_90a") return "";
  return fmt::format("plans run on Hopper GPUs (sm_90a); this one is {}", arch);
}

}  // namespace stretto::cuda
