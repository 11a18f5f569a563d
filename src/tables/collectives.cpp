#include "tables/collectives.h"

#include "stretto/error.h"
#include "tables/collective_parts.h"

namespace stretto::cuda {

std::vector<NcclCall> nccl_calls(const Plan& plan, uint32_t lane, uint32_t position,
                                 const BufferPlaces& places, int set) {
  const CollectiveParts parts(plan, plan.lanes[lane].instrs[position]);
  std::vector<NcclCall> calls;
  if (parts.pieces().empty()) return calls;
  const auto rank = static_cast<size_t>(plan.lanes[lane].rank);
  const auto address = [&](const BufferRows& rows) { return address_of(plan, places, rows, set); };
  const auto make = [&](NcclCall::Kind kind, const CollectivePiece& piece, const BufferRows& from,
                        const BufferRows& to) {
    const DType dtype = plan.buffers[from.buffer].dtype;
    calls.push_back({kind, dtype, piece.group, address(from), address(to), piece.count});
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
