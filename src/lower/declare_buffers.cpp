// declare_buffers: the plan's head, and the buffers that its tasks will name.
#include "lower/lowering.h"
#include "stretto/error.h"

namespace stretto {
namespace {

uint16_t declare(Plan& plan, std::string_view name, DType dtype, BufferRole role, int64_t rows,
                 int64_t cols, int copies = 1) {
  STRETTO_ASSERT(rows <= INT32_MAX, "a plan this large is not legal");
  plan.buffers.push_back({std::string(name), dtype, role, static_cast<int32_t>(rows),
                          static_cast<int32_t>(cols), 0, static_cast<uint8_t>(copies)});
  return static_cast<uint16_t>(plan.buffers.size() - 1);
}

}  // namespace

void declare_buffers(Draft& draft) {
  Lowering& state = lowering(draft);
  const Operator& op = state.op;
  Plan& plan = state.plan;
  const int64_t block = op.row_shards().block();
  const bool a_sharded = op.kind == OpKind::ag_gemm, out_sharded = op.kind == OpKind::gemm_rs;
  BufferIds& ids = state.buffers;
  ids.a = declare(plan, "a", op.dtype, BufferRole::input, a_sharded ? block : op.m, op.local_k());
  ids.b = declare(plan, "b", op.dtype, BufferRole::input, op.local_n(), op.local_k());
  ids.out =
      declare(plan, "out", op.dtype, BufferRole::output, out_sharded ? block : op.m, op.local_n());
  if (a_sharded) plan.buffers[ids.a].sharded_rows = static_cast<int32_t>(op.m);
  if (out_sharded) plan.buffers[ids.out].sharded_rows = static_cast<int32_t>(op.m);

  if (const int ranges = std::max(state.splits(), state.phases()); ranges > 1) {
    ids.ranges =
        declare(plan, "ranges", DType::fp32, BufferRole::local, ranges * op.m, op.local_n());
  }
  const int copies = state.schedule.reuse == Reuse::double_buffer ? 2 : 1;
  const DType partials = state.schedule.partials;
  switch (state.pattern) {
    case Pattern::local:
      break;
    case Pattern::push_gather:
      ids.gathered = declare(plan, "ag", op.dtype, BufferRole::symmetric, op.m, op.k, copies);
      break;
    case Pattern::nccl_gather:  // written by the rank's own collectives only
      ids.gathered = declare(plan, "ag", op.dtype, BufferRole::local, op.m, op.k);
      break;
    case Pattern::slot_reduce:
      if (state.stages_partials()) {
        ids.part = declare(plan, "part", partials, BufferRole::local, op.m, op.n);
      }
      ids.slots =
          declare(plan, "slots", partials, BufferRole::symmetric,
                  int64_t{op.ranks} * state.pieces.slot_rows, state.pieces.slot_cols, copies);
      break;
    case Pattern::nccl_reduce:
      ids.part = declare(plan, "part", op.dtype, BufferRole::local, op.m, op.n);
      break;
    case Pattern::packed_reduce:
      ids.packed = declare(plan, "packed", op.dtype, BufferRole::local, state.packing.rows,
                           state.packing.wide);
      if (state.ranks_own_rows()) {
        ids.sums = declare(plan, "sums", op.dtype, BufferRole::local, state.packing.sums_rows,
                           state.packing.wide);
      }
      break;
  }
}

}  // namespace stretto
