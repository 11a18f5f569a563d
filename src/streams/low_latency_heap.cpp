#include "streams/low_latency_heap.h"

#include <algorithm>
#include <map>
#include <set>

#include "launch/joined_partitions.h"
#include "tables/edge_calls.h"

namespace stretto::runtime {

LowLatencyHeap low_latency_heap(const Plan& plan, int rank, int sms) {
  constexpr size_t kVectorBytes = sizeof(device::Vec16);
  const auto ranks = static_cast<size_t>(plan.ranks());
  LowLatencyHeap heap;
  sms = cuda::sms_of_collectives(plan, rank, sms);
  const std::set<int32_t> receiving = cuda::receiving_collectives(plan);
  const std::map<int32_t, InstrRef> partitions = cuda::joined_partitions(plan, rank);
  for (const Lane& lane : plan.lanes) {
    if (lane.rank != rank || lane.kind != LaneKind::nccl) continue;
    for (const Instr& instr : lane.instrs) {
      if (instr.op != Opcode::collective || !is_by_language(plan, instr)) continue;
      cuda::LowLatencyCall call = cuda::low_latency_sizes(plan, instr);
      if (call.count == 0) continue;
      if (const auto found = partitions.find(instr.id); found != partitions.end()) {
        const InstrRef& at = found->second;
        call.routed = cuda::routed_sizes(plan, plan.lanes[at.lane].instrs[at.pos]);
      }
      LowLatencyHeap::Collective& made = heap.collectives.emplace_back();
      made.id = instr.id;
      made.columns = call.routed.experts + 1;
      if (instr.kernel() > 0) {
        const cuda::EdgeShape shape = cuda::edge_shape(plan, instr, sms);
        made.shape = shape;
        made.signals = shape.signals;
        made.sizes = shape.sizes;
        made.kernel = plan.op.kernels[instr.kernel() - 1].name;
        heap.num_bytes += made.signals * sizeof(uint64_t) + LowLatencyHeap::kAlignment;
      } else {
        made.shape = receiving.count(instr.id) != 0
                         ? cuda::receiving_shape(call, plan.ranks(), sms)
                         : cuda::low_latency_shape(call, plan.ranks(), sms);
      }
      const Buffer& from = plan.buffers[plan.reads(instr).front().buffer];
      made.row_vectors = static_cast<uint64_t>(from.cols * num_bytes(from.dtype)) / kVectorBytes;
      made.most = static_cast<uint64_t>(call.part * num_bytes(call.dtype)) / kVectorBytes;
      heap.num_bytes +=
          (made.shape.slot_vectors + LowLatencyHeap::kGreetings * ranks) * kVectorBytes +
          2 * LowLatencyHeap::kAlignment;
      heap.most_blocks = std::max(heap.most_blocks, made.shape.blocks);
    }
  }
  return heap;
}

}  // namespace stretto::runtime
