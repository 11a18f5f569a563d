#include "tables/collectives.h"

#include <fmt/format.h>

#include "stretto/error.h"
#include "tables/collective_parts.h"

namespace stretto::cuda {

namespace {

// A call for each region: what a sender has side by side a receiver may have apart.
std::vector<NcclCall> calls_of_exchange(const Plan& plan, int rank, const Instr& instr,
                                        const BufferPlaces& places, int set) {
  const auto ranks = static_cast<size_t>(plan.joined_by(instr, rank).count);
  const size_t each = form_of(instr.collective).parts(instr.num_reads, ranks);
  std::vector<NcclCall> calls;
  const auto add = [&](NcclCall::Kind kind, std::span<const Region> regions, size_t i) {
    const Region& region = regions[i];
    if (region.empty()) return;
    const BufferRows rows = whole_rows(plan, region);
    const Buffer& buffer = plan.buffers[region.buffer];
    const DevicePtr address = address_of(plan, places, rows, set);
    const bool sends = kind == NcclCall::Kind::send;
    calls.push_back({kind, buffer.dtype, static_cast<int>(i / each), sends ? address : 0,
                     sends ? 0 : address, int64_t{region.rows()} * buffer.cols, instr.team});
  };
  for (size_t i = 0; i < ranks * each; ++i) {
    add(NcclCall::Kind::send, plan.reads(instr), i);
    add(NcclCall::Kind::receive, plan.writes(instr), i);
  }
  return calls;
}

}  // namespace

std::vector<NcclCall> nccl_calls(const Plan& plan, uint32_t lane, uint32_t position,
                                 const BufferPlaces& places, int set) {
  const Instr& instr = plan.lanes[lane].instrs[position];
  if (instr.collective == CollectiveKind::all_to_all) {
    return calls_of_exchange(plan, plan.lanes[lane].rank, instr, places, set);
  }
  if (form_of(instr.collective).goes_by_ids()) {
    throw UsageError(
        fmt::format("NCCL makes no {}: take collectives=low-latency", to_string(instr.collective)));
  }
  const CollectiveParts parts(plan, instr, plan.lanes[lane].rank);
  std::vector<NcclCall> calls;
  if (parts.pieces().empty()) return calls;
  const auto rank = static_cast<size_t>(plan.lanes[lane].rank - parts.joined().first);
  const auto address = [&](const BufferRows& rows) { return address_of(plan, places, rows, set); };
  const auto make = [&](NcclCall::Kind kind, const CollectivePiece& piece, const BufferRows& from,
                        const BufferRows& to) {
    const DType dtype = plan.buffers[from.buffer].dtype;
    calls.push_back(
        {kind, dtype, piece.group, address(from), address(to), piece.count, instr.team});
  };
  const bool gathers = parts.kind() == CollectiveKind::all_gather;
  if (parts.kind() == CollectiveKind::all_reduce_norm) {
    throw UsageError("NCCL makes no all_reduce_norm: take collectives=low-latency");
  }
  if (parts.kind() != CollectiveKind::all_reduce && parts.are_even()) {
    const CollectivePiece& own = parts.pieces()[rank];
    const CollectivePiece& first = parts.pieces()[0];
    make(gathers ? NcclCall::Kind::all_gather : NcclCall::Kind::reduce_scatter, own,
         gathers ? own.from[rank] : first.from[rank], gathers ? first.to[rank] : own.to[rank]);
    return calls;
  }
  for (const CollectivePiece& piece : parts.pieces()) {
    make(parts.kind() == CollectiveKind::all_reduce ? NcclCall::Kind::all_reduce
         : gathers                                  ? NcclCall::Kind::broadcast
                                                    : NcclCall::Kind::reduce,
         piece, piece.from[rank], piece.to[rank]);
  }
  return calls;
}

}  // namespace stretto::cuda
