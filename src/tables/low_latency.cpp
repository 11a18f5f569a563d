#include "tables/low_latency.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "launch/rank_program.h"
#include "plan/chosen_operands.h"
#include "stretto/error.h"
#include "stretto/schedule.h"
#include "tables/collective_parts.h"
#include "tables/low_latency_shape.h"

namespace stretto::cuda {
namespace {

constexpr int64_t kVectorBytes = 16, kMostVectors = INT32_MAX;
static_assert(kVectorBytes == kLowLatencyBytes && device::kMaxRanks == kMostLowLatencyRanks);
// Each rank's rows are its own in a gather or reduce-scatter; in an all-reduce all are everyone's.
bool has_owners(CollectiveKind kind) {
  return form_of(kind).groups_reads || form_of(kind).groups_writes;
}

// Whether some rank's rows go where some of them come from.
bool is_in_place(const CollectiveParts& parts) {
  const auto meet = [](const BufferRows& a, const BufferRows& b) {
    return a.buffer == b.buffer && a.rank == b.rank && a.row0 < b.row1 && b.row0 < a.row1;
  };
  for (const CollectivePiece& piece : parts.pieces()) {
    for (const CollectivePiece& other : parts.pieces()) {
      for (size_t r = 0; r < piece.from.size(); ++r) {
        if (meet(piece.from[r], other.to[r])) return true;
      }
    }
  }
  return false;
}

// Part and count, without places.
LowLatencyCall sizes_of(const Plan& plan, const CollectiveParts& parts) {
  LowLatencyCall call;
  call.kind = parts.kind();
  if (parts.pieces().empty()) return call;
  call.dtype = plan.buffers[parts.pieces().front().from.front().buffer].dtype;
  call.part = parts.pieces().front().count;
  for (const CollectivePiece& piece : parts.pieces()) call.count += piece.count;
  if (call.kind == CollectiveKind::all_reduce_norm) {
    call.row_elements = plan.buffers[parts.pieces().front().from.front().buffer].cols;
  }
  return call;
}

std::string why_no_norm(const Plan& plan, const Instr& instr, const LowLatencyCall& call,
                        bool serves) {
  if (call.dtype != DType::bf16) return "all_reduce_norm: it norms bf16, no other type";
  if (serves) return "all_reduce_norm: it serves no runs of fewer rows: take rows=fixed";
  if (call.row_elements * num_bytes(call.dtype) % kVectorBytes != 0) {
    return fmt::format("all_reduce_norm: the {} bytes of a row must be a multiple of {}",
                       call.row_elements * num_bytes(call.dtype), kVectorBytes);
  }
  const std::span<const Region> reads = plan.reads(instr), writes = plan.writes(instr);
  std::vector<Region> all(reads.begin(), reads.end());
  all.insert(all.end(), writes.begin(), writes.end());
  for (size_t i = 0; i < all.size(); ++i) {
    const Region& one = all[i];
    if (one.col0 != 0 || one.cols() != plan.buffers[one.buffer].cols) {
      return "all_reduce_norm: it takes whole rows of buffers";
    }
    for (size_t j = 0; j < i; ++j) {
      if (one.overlaps(all[j])) return "all_reduce_norm: no two of its regions may overlap";
    }
  }
  return "";
}

// Of a rank's part of a dispatch or combine, without places. Whether ids and weights are own ones
// is seen on the last rank, which has the fewest tokens.
LowLatencyCall chosen_sizes(const Plan& plan, const Instr& instr) {
  const ChosenOperands of = chosen_operands(plan, instr);
  const bool sums = form_of(instr.collective).adds;
  const auto block = RowShards{of.tokens, plan.ranks()}.block();
  LowLatencyCall call;
  call.kind = instr.collective;
  call.dtype = plan.buffers[plan.reads(instr)[sums ? 2 : 0].buffer].dtype;
  call.part = block * of.cols;
  call.count = of.tokens * of.cols;
  call.row_elements = of.cols;
  call.chosen = {static_cast<uint32_t>(of.tokens), static_cast<uint32_t>(block),
                 static_cast<uint32_t>(of.top_k), static_cast<uint32_t>(of.experts)};
  call.chosen.by_choice = of.by_choice;
  call.chosen.round_trip = of.round_trip;
  call.chosen.of_all_experts = of.of_all_experts;
  call.chosen.has_wide_ids = plan.buffers[plan.reads(instr)[1].buffer].dtype == DType::i64;
  const auto last = plan.reads(collective_of(plan, plan.ranks() - 1, instr.id));
  const bool by_token = !sums && !of.by_choice;  // takes notes, even those of a rank alone
  call.chosen.notes_ids = of.round_trip || by_token || (!sums && last[1].rows() < of.tokens);
  call.chosen.notes_weights =
      of.round_trip || (by_token && last.size() == 3) || (sums && last[0].rows() < of.tokens);
  return call;
}

std::string why_not_chosen(const Plan& plan, const Instr& instr, bool serves) {
  const auto name = to_string(instr.collective);
  if (serves) return fmt::format("{}: it serves no runs of fewer rows: take rows=fixed", name);
  const LowLatencyCall call = chosen_sizes(plan, instr);
  if (call.dtype == DType::fp32) return fmt::format("{}: it moves bf16 and fp16, not fp32", name);
  if (call.row_elements * num_bytes(call.dtype) % kVectorBytes != 0) {
    return fmt::format("{}: the {} bytes of a row must be a multiple of {}", name,
                       call.row_elements * num_bytes(call.dtype), kVectorBytes);
  }
  const auto slots = chosen_sizes_of(call).slot_vectors(static_cast<uint64_t>(plan.ranks()));
  if (slots > kMostVectors) {
    return fmt::format("{}: {} tokens of {} columns, for which it has no room: take another mover",
                       name, call.chosen.tokens, call.row_elements);
  }
  const auto is_whole = [&](const Region& region) {
    return region.col0 == 0 && region.cols() == plan.buffers[region.buffer].cols;
  };
  const auto reads = plan.reads(instr), writes = plan.writes(instr);
  if (!std::all_of(reads.begin(), reads.end(), is_whole) ||
      !std::all_of(writes.begin(), writes.end(), is_whole)) {
    return fmt::format("{}: it takes whole rows of buffers", name);
  }
  for (const Region& read : reads) {
    for (const Region& write : writes) {
      if (read.overlaps(write)) return fmt::format("{}: it reads nothing that it writes", name);
    }
  }
  return "";
}

std::string why_not(const Plan& plan, const Instr& instr, bool serves) {
  if (form_of(instr.collective).goes_by_ids()) return why_not_chosen(plan, instr, serves);
  if (instr.collective == CollectiveKind::all_to_all) {
    return "collectives low-latency: none of them is an all-to-all: take collectives=nccl";
  }
  if (instr.team > 0) {
    return fmt::format(
        "collectives low-latency: they are of all ranks, and these of teams of {}: take "
        "collectives=nccl",
        instr.team);
  }
  const CollectiveParts parts(plan, instr, 0);
  if (!parts.are_rows_of_owners()) {
    return "collectives low-latency: the rows of a collective do not follow each other by owner";
  }
  const LowLatencyCall call = sizes_of(plan, parts);
  if (call.dtype == DType::fp32 || is_index(call.dtype)) {
    return fmt::format("collectives low-latency: they move bf16 and fp16, not {}",
                       to_string(call.dtype));
  }
  const int64_t bytes = num_bytes(call.dtype);
  if (call.part * bytes % kVectorBytes != 0 || call.count * bytes % kVectorBytes != 0) {
    return fmt::format(
        "collectives low-latency: the {} and {} bytes of a rank's rows and of all of them must be "
        "multiples of {}: take collectives=nccl or other columns",
        call.part * bytes, call.count * bytes, kVectorBytes);
  }
  if (serves && call.count / plan.op.rows() * bytes % kVectorBytes != 0) {
    return fmt::format(
        "collectives low-latency: of fewer rows, the {} bytes of a row must be a multiple of {}",
        call.count / plan.op.rows() * bytes, kVectorBytes);
  }
  if (call.kind == CollectiveKind::all_reduce_norm) {
    if (std::string why = why_no_norm(plan, instr, call, serves); !why.empty()) return why;
  }
  const bool has_parts = has_owners(call.kind);
  const int64_t most =
      has_parts ? std::min<int64_t>(device::kMostPartVectors, kMostVectors / plan.ranks())
                : kMostVectors;
  if (call.part * bytes / kVectorBytes > most) {
    return fmt::format("collectives low-latency: {} bytes {}, at most {}: take collectives=nccl",
                       call.part * bytes, has_parts ? "of a rank" : "to add", most * kVectorBytes);
  }
  if (has_parts && is_in_place(parts)) {
    return "collectives low-latency: a gather or reduce-scatter in place: give its result other "
           "rows";
  }
  return "";
}

}  // namespace

std::string why_no_low_latency(const Plan& plan, bool serves) {
  if (plan.ranks() > device::kMaxRanks) {
    return fmt::format("collectives low-latency: {} ranks, at most {} are served", plan.ranks(),
                       device::kMaxRanks);
  }
  const Lane* last = nullptr;  // of nccl lanes, which stand rank by rank
  for (const Lane& lane : plan.lanes) {
    if (lane.kind != LaneKind::nccl) continue;
    // Their blocks wait for other ranks: two that are begun in another order hold up each other.
    if (last != nullptr && last->rank == lane.rank) {
      return "collectives low-latency: they run on one lane of a rank, not on more";
    }
    last = &lane;
    if (lane.rank != 0) continue;
    for (const Instr& instr : lane.instrs) {
      if (instr.op != Opcode::collective) continue;
      if (std::string why = why_not(plan, instr, serves); !why.empty()) return why;
    }
  }
  return "";
}

int sms_of_collectives(const Plan& plan, int rank, int sms) {
  for (const Lane& lane : plan.lanes) {
    sms -= lane.rank == rank && lane.kind == LaneKind::comm;
  }
  return std::max(1, sms);
}

std::set<int32_t> receiving_collectives(const Plan& plan) {
  std::set<int32_t> ids;
  if (!plan.any_few_rows()) return ids;
  for (const RankProgram& program : programs_of(plan)) {
    for (const std::optional<Step>& step : program.sent) {
      if (step) ids.insert(step->instr(plan).id);
    }
  }
  return ids;
}

LowLatencyCall low_latency_sizes(const Plan& plan, const Instr& instr) {
  if (form_of(instr.collective).goes_by_ids()) return chosen_sizes(plan, instr);
  LowLatencyCall call = sizes_of(plan, CollectiveParts(plan, instr, 0));
  call.kernel = instr.kernel();
  return call;
}

LowLatencyCall::Routed routed_sizes(const Plan& plan, const Instr& route) {
  const std::span<const Region> to = plan.writes(route);
  const auto experts = static_cast<int32_t>(route.count(0)), own = to[3].rows() - 1;
  const int32_t first = device::ExpertShares{experts, plan.ranks()}.begin(to[3].rank);
  return {own == experts ? 0 : first, own, to[0].rows() / to[1].rows(), to[1].rows()};
}

LowLatencyCall::Routed routed_call(const Plan& plan, const Instr& route, const BufferPlaces& places,
                                   int set) {
  LowLatencyCall::Routed routed = routed_sizes(plan, route);
  const std::span<const Region> to = plan.writes(route);
  const auto place = [&](const Region& region) {
    return address_of(plan, places, {region.buffer, region.rank, region.row0, region.row1}, set);
  };
  routed.choices = place(to[0]);
  routed.experts_of_entries = place(to[1]);
  routed.rows = place(to[2]);
  routed.counts = place(to[3]);
  return routed;
}

namespace {

LowLatencyCall chosen_call(const Plan& plan, const Instr& instr, const BufferPlaces& places,
                           int set) {
  LowLatencyCall call = chosen_sizes(plan, instr);
  const auto place = [&](const Region* region) -> DevicePtr {
    if (region == nullptr || region->empty()) return 0;
    return address_of(plan, places, {region->buffer, region->rank, region->row0, region->row1},
                      set);
  };
  const auto reads = plan.reads(instr);
  const auto read = [&](size_t i) { return place(i < reads.size() ? &reads[i] : nullptr); };
  const bool sums = form_of(instr.collective).adds;
  call.chosen.counts_bad_ids = counts_bad_ids(plan, instr);
  call.chosen.ids = read(1);
  call.chosen.weights = read(sums ? 0 : 2);
  call.from = read(sums ? 2 : 0);
  if (sums) {
    call.to = place(&plan.writes(instr)[0]);
    call.chosen.row_of_choice = read(3);
  } else {
    const Dispatched to = dispatched(plan, instr);
    call.to = place(to.rows);
    call.chosen.all_ids = place(to.ids);
    call.chosen.all_weights = place(to.weights);
    call.chosen.counts = place(to.counts);
  }
  return call;
}

}  // namespace

LowLatencyCall low_latency_call(const Plan& plan, uint32_t lane, uint32_t position,
                                const BufferPlaces& places, int set) {
  const Instr& its = plan.lanes[lane].instrs[position];
  if (form_of(its.collective).goes_by_ids()) return chosen_call(plan, its, places, set);
  const CollectiveParts parts(plan, plan.lanes[lane].instrs[position], plan.lanes[lane].rank);
  LowLatencyCall call = sizes_of(plan, parts);
  call.kernel = its.kernel();
  if (call.count == 0) return call;
  const auto rank = static_cast<size_t>(plan.lanes[lane].rank);
  const auto address = [&](const BufferRows& rows) { return address_of(plan, places, rows, set); };
  // What all ranks have of it begins with the first rank's rows.
  const bool gathers = call.kind == CollectiveKind::all_gather;
  const bool scatters = call.kind == CollectiveKind::reduce_scatter;
  if (call.kind == CollectiveKind::all_reduce_norm) {
    const Instr& instr = plan.lanes[lane].instrs[position];
    const auto place = [&](const Region& region) {
      return address({region.buffer, region.rank, region.row0, region.row1});
    };
    call.residual = place(plan.reads(instr)[1]);
    call.weights = place(plan.reads(instr)[2]);
    call.normed = place(plan.writes(instr)[1]);
    call.eps = instr.attribute();
  }
  const CollectivePiece& all = parts.pieces().front();
  const size_t own = has_owners(call.kind) ? rank : 0;
  const bool has_rows = own < parts.pieces().size();
  if (!gathers) {
    call.from = address(all.from[rank]);
  } else if (has_rows) {
    call.from = address(parts.pieces()[own].from[rank]);
  }
  if (!scatters) {
    call.to = address(all.to[rank]);
  } else if (has_rows) {
    call.to = address(parts.pieces()[own].to[rank]);
  }
  return call;
}

LowLatencyCall with_rows(LowLatencyCall call, const device::RunRows& run, int64_t most) {
  const int64_t row = call.count / most;
  call.part = row * run.run_block;
  call.count = row * run.rows;
  return call;
}

LowLatencyCall with_rows_at(LowLatencyCall call, DevicePtr rows_at, const device::RunRows& run,
                            int64_t most) {
  const int64_t row = call.count / most;
  call = with_rows(call, run, most);
  call.rows_at = rows_at;
  call.row = row;
  return call;
}

}  // namespace stretto::cuda
