#include "tables/call_lists.h"

#include <algorithm>

#include "launch/choice_rows.h"
#include "plan/tile_task.h"
#include "stretto/call.h"

namespace stretto::cuda {
namespace {

// What the GEMM kernel, cuBLAS and copy engines do takes rows as far apart as one likes.
bool takes_gaps(const Lane& lane, const Instr& instr) {
  if (lane.kind == LaneKind::copy) return true;
  if (lane.kind != LaneKind::compute) return false;
  const bool picks_rows = gathers_rows(instr.op);
  return (is_product(instr.op) && !picks_rows) || follows_product(instr.op);
}

// One of two products that the kernel of experts makes together: by one map, which has one distance
// of rows for the weights of both.
bool is_of_pair(const std::vector<Instr>& instrs, size_t at) {
  if (!is_routed_product(instrs[at].op)) return false;
  const bool leads =
      at + 1 < instrs.size() && is_routed_product(instrs[at + 1].op) && instrs[at + 1].fused;
  return instrs[at].fused || leads;
}

}  // namespace

std::vector<bool> tensors_without_gaps(const Plan& plan) {
  std::vector<bool> of_buffer(plan.buffers.size());
  for (const Lane& lane : plan.lanes) {
    size_t boundaries = 0;
    for (size_t at = 0; at < lane.instrs.size(); ++at) {
      const Instr& instr = lane.instrs[at];
      boundaries += instr.op == Opcode::boundary;
      if (!instr.is_task() || instr.op == Opcode::deliver) continue;
      const bool takes_all_gaps =
          takes_gaps(lane, instr) &&
          !(is_of_pair(lane.instrs, at) && plan.library_at(boundaries).has_value());
      for (const auto& regions : {plan.reads(instr), plan.writes(instr)}) {
        for (const Region& region : regions) {
          const Buffer& buffer = plan.buffers[region.buffer];
          const bool is_solid = !takes_all_gaps || is_by_choice(buffer);
          if (is_solid && buffer.rows > 1) of_buffer[region.buffer] = true;
        }
      }
    }
  }
  std::vector<bool> of_tensor;
  for (const CallerTensor& tensor : caller_tensors(plan.op)) {
    const auto buffer = plan.find_buffer(plan.op.tensor(tensor.tensor).name);
    of_tensor.push_back(buffer && of_buffer[*buffer]);
  }
  return of_tensor;
}

std::vector<bool> buffers_of_uneven_collectives(const Plan& plan) {
  std::vector<bool> of_buffer(plan.buffers.size());
  for (const Lane& lane : plan.lanes) {
    if (lane.kind != LaneKind::nccl) continue;
    for (const Instr& instr : lane.instrs) {
      if (instr.op != Opcode::collective) continue;
      for (const auto& regions : {plan.reads(instr), plan.writes(instr)}) {
        for (const Region& region : regions) {
          if (plan.buffers[region.buffer].sharded_cols > 0) of_buffer[region.buffer] = true;
        }
      }
    }
  }
  return of_buffer;
}

Matrix at_call(Matrix matrix, CallPlaces places) {
  if (!is_stand_in(matrix.address)) return matrix;
  const CallPlace& place = places[tensor_of(matrix.address)];
  const int64_t left = place.rows - place.row_of(matrix.address);
  matrix.address = at_call(matrix.address, places);
  matrix.rows = std::clamp<int64_t>(left, 1, matrix.rows);
  matrix.stride = static_cast<int64_t>(place.row_bytes) / num_bytes(matrix.dtype);
  return matrix;
}

Transfer at_call(Transfer transfer, CallPlaces places) {
  const auto take = [&](DevicePtr& at, uint64_t& pitch) {
    if (!is_stand_in(at)) return;
    const CallPlace& place = places[tensor_of(at)];
    const int64_t left = std::max<int64_t>(0, place.rows - place.row_of(at));
    transfer.rows = std::min(transfer.rows, static_cast<uint64_t>(left));
    pitch = place.row_bytes;
    at = at_call(at, places);
  };
  take(transfer.from, transfer.from_pitch);
  take(transfer.to, transfer.to_pitch);
  return transfer;
}

NcclCall at_call(NcclCall call, CallPlaces places) {
  call.from = at_call(call.from, places);
  call.to = at_call(call.to, places);
  return call;
}

LowLatencyCall at_call(LowLatencyCall call, CallPlaces places) {
  LowLatencyCall::Chosen& of = call.chosen;
  for (DevicePtr* at : {&call.from, &call.to, &call.residual, &call.weights, &call.normed, &of.ids,
                        &of.weights, &of.row_of_choice, &of.all_ids, &of.all_weights, &of.counts}) {
    *at = at_call(*at, places);
  }
  return call;
}

}  // namespace stretto::cuda
