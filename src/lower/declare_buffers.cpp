// declare_buffers: the buffers that tasks will name: the caller's tensors, what is kept from one
// segment to the next, and what products need on the way.
#include <algorithm>

#include "lower/lowering.h"
#include "stretto/error.h"

namespace stretto {
namespace {

class Declarer {
 public:
  explicit Declarer(Lowering& state)
      : state_(state), plan_(state.plan), op_(state.op), is_one_(op_.only_product() != nullptr) {}

  void declare() {
    size_t product = 0;
    for (const OperatorSegment& segment : op_.segments) {
      if (segment.product) {
        declare_product(state_.products[product++]);
      } else {
        declare_rows(segment);
      }
    }
  }

 private:
  uint16_t add(std::string name, DType dtype, BufferRole role, int64_t rows, int64_t cols,
               int copies = 1) {
    STRETTO_ASSERT(rows <= INT32_MAX, "a plan this large is not legal");
    while (plan_.find_buffer(name)) name += '_';
    plan_.buffers.push_back({std::move(name), dtype, role, static_cast<int32_t>(rows),
                             static_cast<int32_t>(cols), 0, static_cast<uint8_t>(copies)});
    return static_cast<uint16_t>(plan_.buffers.size() - 1);
  }

  uint16_t add_tensor(std::string name, const Tensor& tensor, Held held, BufferRole role,
                      int copies = 1) {
    const RowShards shards{tensor.rows, op_.ranks};
    const uint16_t buffer =
        add(std::move(name), op_.dtype, role, held == Held::rows ? shards.block() : tensor.rows,
            held == Held::cols ? tensor.cols / op_.ranks : tensor.cols, copies);
    if (held == Held::rows) plan_.buffers[buffer].sharded_rows = static_cast<int32_t>(tensor.rows);
    return buffer;
  }

  // What the caller gives; weights have equal blocks.
  uint16_t input(int id, bool is_weight = false) {
    const Tensor& tensor = op_.tensor(id);
    if (tensor.stage >= 0) return state_.results[static_cast<size_t>(id)];
    if (const auto known = plan_.find_buffer(tensor.name)) return *known;
    const uint16_t buffer = add_tensor(tensor.name, tensor, tensor.held, BufferRole::input);
    if (is_weight) plan_.buffers[buffer].sharded_rows = 0;
    return buffer;
  }

  // What a segment leaves. Peers may write to what is symmetric or the caller's.
  uint16_t result(const OperatorSegment& segment, bool peers_write, int copies) {
    const Tensor& tensor = op_.tensor(segment.result);
    const bool is_output = op_.output_held(segment.result) == segment.result_held;
    const BufferRole role = is_output     ? BufferRole::output
                            : peers_write ? BufferRole::symmetric
                                          : BufferRole::local;
    // Its name is the output's, where that is held otherwise.
    const bool is_own = op_.output_held(segment.result).has_value() && !is_output;
    const uint16_t buffer =
        add_tensor(tensor.name + (is_own ? "_own" : ""), tensor, segment.result_held, role,
                   role == BufferRole::symmetric ? copies : 1);
    state_.results[static_cast<size_t>(segment.result)] = buffer;
    return buffer;
  }

  void declare_rows(const OperatorSegment& segment) {
    if (segment.is_gather()) {
      const Tensor& tensor = op_.tensor(segment.result);
      add_tensor(tensor.name, tensor, segment.result_held, BufferRole::output);
      return;
    }
    for (const int id : segment.stages) {
      const Stage& stage = op_.stage(id);
      for (const int in : stage.in) input(in);
      OperatorSegment one = segment;
      one.result = stage.out;
      one.result_held = op_.tensor(stage.out).held;
      result(one, false, 1);
    }
  }

  void declare_product(SegmentLowering& product) {
    const Segment& op = product.op;
    const Schedule& schedule = product.schedule;
    const std::string prefix = is_one_ ? "" : product.part.name + "_";
    BufferIds& ids = product.buffers;
    const int copies = schedule.reuse == Reuse::double_buffer ? 2 : 1;
    ids.a = input(product.part.input);
    for (const int weight : product.part.weights) product.weights.push_back(input(weight, true));
    ids.b = product.weights[0];
    for (const int id : product.part.stages) {
      for (const int in : op_.stage(id).in) input(in);
    }
    const bool peers_write =
        schedule.reduction == Reduction::two_shot || product.pattern == Pattern::exchange_output;
    ids.out = result(product.part, peers_write, copies);
    for (const int id : product.part.stages) {
      const bool is_last = op_.stage(id).out == product.part.result;
      product.kept.push_back(is_last ? ids.out
                                     : add(op_.tensor(op_.stage(id).out).name, DType::fp32,
                                           BufferRole::local, op.local_m(), op.local_n()));
    }
    if (const int ranges = std::max(product.splits(), product.phases()); ranges > 1) {
      ids.ranges = add(prefix + "ranges", DType::fp32, BufferRole::local, ranges * op.local_m(),
                       op.local_n());
    }
    const DType partials = schedule.partials;
    switch (product.pattern) {
      case Pattern::local:
        break;
      case Pattern::push_gather:
        ids.gathered = add(prefix + "ag", op.dtype, BufferRole::symmetric, op.m, op.k, copies);
        break;
      case Pattern::nccl_gather:  // written by the rank's own collectives only
        ids.gathered = add(prefix + "ag", op.dtype, BufferRole::local, op.m, op.k);
        break;
      case Pattern::slot_reduce:
        if (product.stages_partials()) {
          ids.part = add(prefix + "part", partials, BufferRole::local, op.m, op.n);
        }
        ids.slots =
            add(prefix + "slots", partials, BufferRole::symmetric,
                int64_t{op.ranks} * product.pieces.slot_rows, product.pieces.slot_cols, copies);
        break;
      case Pattern::exchange_input:
        ids.exchanged =
            add(prefix + "in", op.dtype, BufferRole::symmetric, op.local_m(), op.k, copies);
        break;
      case Pattern::exchange_output:
        declare_exchange(product, prefix, copies);
        break;
      case Pattern::nccl_reduce:
        ids.part = add(prefix + "part", op.dtype, BufferRole::local, op.m, op.n);
        break;
      case Pattern::packed_reduce:
        ids.packed = add(prefix + "packed", op.dtype, BufferRole::local, product.packing.rows,
                         product.packing.wide);
        if (product.ranks_own_rows()) {
          ids.sums = add(prefix + "sums", op.dtype, BufferRole::local, product.packing.sums_rows,
                         product.packing.wide);
        }
        break;
    }
  }

  // Peers must not write to the caller's tensor before its rank's run begins, so they write to a
  // buffer that alternates, and it is copied from there.
  void declare_exchange(SegmentLowering& product, const std::string& prefix, int copies) {
    const Segment& op = product.op;
    BufferIds& ids = product.buffers;
    if (product.stages_partials()) {
      ids.part = add(prefix + "part", op.dtype, BufferRole::local, op.local_m(), op.n);
    }
    const bool is_callers = plan_.buffers[ids.out].role == BufferRole::output;
    ids.exchanged = is_callers ? add(prefix + "landed", op.dtype, BufferRole::symmetric, op.m,
                                     product.cols_each(), copies)
                               : ids.out;
  }

  Lowering& state_;
  Plan& plan_;
  const Operator& op_;
  const bool is_one_;
};

}  // namespace

void declare_buffers(Draft& draft) { Declarer(lowering(draft)).declare(); }

}  // namespace stretto
