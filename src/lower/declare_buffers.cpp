// declare_buffers: the buffers that tasks will name: the caller's tensors, what is kept from one
// segment to the next, and what products need on the way. Parts of the rows share what is the
// caller's.
#include <fmt/format.h>

#include <algorithm>

#include "lower/declarer.h"
#include "lower/residual_sums.h"
#include "lower/sent_rows.h"

namespace stretto {
namespace {

// A library multiplies by several weights at once where these lie behind one another and the
// columns that they make beside one another. What goes on with these takes 16 bytes at once.
bool may_keep_beside(const SegmentLowering& product) {
  const Segment& op = product.op;
  return op.weights > 1 && op.local_n() * num_bytes(op.dtype) % 16 == 0 &&
         (op.kind.weight != Held::rows || op.shares_of(op.n).are_even());
}

}  // namespace

void Declarer::declare() {
  size_t product = 0, routed = 0, look_ups = 0;
  for (size_t i = 0; i < state_.op.segments.size(); ++i) {
    for (size_t p = 0; p < state_.parts.size(); ++p) {
      part_ = &state_.parts[p];
      if (state_.is_split()) prefix_ = fmt::format("p{}_", p);
      const OperatorSegment& segment = op().segments[i];
      if (segment.product && segment.product->is_routed()) {
        declare_routed(state_.routed[routed++]);
      } else if (segment.product && segment.product->looks_up()) {
        declare_look_ups(state_.look_ups[look_ups++]);
      } else if (segment.product) {
        declare_product(state_.products[product++]);
      } else {
        declare_rows(segment);
      }
    }
  }
}

void Declarer::declare_rows(const OperatorSegment& segment) {
  if (segment.is_edge()) {
    if (part_ == &state_.parts.front()) {
      add_callers(segment.result, segment.result_held, BufferRole::output);
    }
    return;
  }
  for (const int id : segment.stages) {
    const Stage& stage = op().stage(id);
    const SegmentLowering* const summed = summed_by(state_, *part_, stage.out);
    if (summed != nullptr && !summed->residual->is_handed_over) continue;
    for (const int in : stage.in) input(in);
    if (stage.out == segment.result && gather_by_stage(state_, *part_, segment)) continue;
    OperatorSegment one = segment;
    one.result = stage.out;
    one.result_held = op().tensor(stage.out).held;
    result(one, false, 1);
  }
}

// The kernel of few rows has one product.
std::optional<uint16_t> Declarer::without_stripes(const SegmentLowering& product, uint16_t buffer,
                                                  std::string name) {
  const Buffer of = plan_.buffers[buffer];
  const bool is_striped = state_.is_split() && state_.rows.owners.ranks > 1 &&
                          state_.rows_of_all_parts(buffer) > 0 && of.sharded_rows == 0;
  if (product.schedule.gemm != GemmBy::few_rows || !is_striped) return std::nullopt;
  const uint16_t made =
      add(std::move(name), of.dtype, BufferRole::local, product.op.local_m(), of.cols);
  if (of.sharded_cols > 0) plan_.buffers[made].sharded_cols = of.sharded_cols;
  return made;
}

void Declarer::declare_product(SegmentLowering& product) {
  const Segment& op = product.op;
  const Schedule& schedule = product.schedule;
  const Operator& whole = product.whole;
  std::string prefix = prefix_ + (is_one_ ? "" : product.part.name + "_");
  std::replace(prefix.begin(), prefix.end(), '.', '_');  // no buffer's name has a dot
  BufferIds& ids = product.buffers;
  const int copies = schedule.reuse == Reuse::double_buffer ? 2 : 1;
  if (product.part.feeds()) {
    ids.a = input(product.part.input);
    part_->brought = ids.a;
    if (product.pattern.declare_buffers == nullptr) return;  // one rank has it
    product.pattern.declare_buffers(product, PatternBuffers(*this, prefix, copies));
    part_->brought = op.exchanges() ? ids.exchanged : ids.gathered;
    return;
  }
  ids.a = product.part.is_fed ? part_->brought : input(product.part.input);
  if (const auto rows = without_stripes(product, ids.a, prefix + "rows")) {
    ids.striped_a = ids.a;
    ids.a = *rows;
  }
  for (const int weight : product.part.weights) product.weights.push_back(input(weight, true));
  ids.b = product.weights[0];
  for (const int id : product.part.stages) {
    for (const int in : whole.stage(id).in) input(in);
  }
  const bool peers_write =
      schedule.reduction == Reduction::two_shot || product.pattern.peers_write_result;
  OperatorSegment made = product.part;
  if (product.residual) {
    input(product.residual->residual);
    if (!product.residual->is_handed_over) made.result = product.residual->sum;
  }
  const bool is_added = product.restored && product.restored->residual >= 0;  // and never stored
  if (!product.normed && !is_added) ids.out = result(made, peers_write, copies);
  if (!product.normed && !is_added) {
    if (const auto rows = without_stripes(product, ids.out, prefix + "made")) {
      ids.striped_out = ids.out;
      ids.out = *rows;
    }
  }
  // A library stores its products, and what follows them reads them from memory. Scores stay as
  // they are, so that whoever multiplies, the same experts are chosen.
  const bool is_stored =
      product.follows_behind() && whole.tensor(product.part.result).dtype != DType::fp32;
  const DType kept = is_stored ? op.dtype : DType::fp32;
  product.keeps_beside = is_stored && may_keep_beside(product);
  if (product.keeps_beside) {
    const uint16_t all =
        add(prefix + "products", kept, BufferRole::local, op.local_m(), op.product_cols());
    product.kept.assign(product.weights.size(), all);
  }
  for (size_t i = product.kept.size(); i < product.part.stages.size(); ++i) {
    const int out = whole.stage(product.part.stages[i]).out;
    product.kept.push_back(out == product.part.result
                               ? ids.out
                               : add_named(name_of(whole.tensor(out)), kept, BufferRole::local,
                                           op.local_m(), op.local_n()));
    const bool is_result = out == product.part.result;  // of which ranks may have rows
    if (op.kind.weight == Held::rows && !(is_result && op.turns_columns())) {
      set_shares(product.kept.back(), op.shares_of(op.n));
    }
  }
  if (const int ranges = std::max(product.splits(), product.phases()); ranges > 1) {
    ids.ranges =
        add(prefix + "ranges", DType::fp32, BufferRole::local, ranges * op.local_m(), op.local_n());
    if (op.kind.weight == Held::rows) set_shares(ids.ranges, op.shares_of(op.n));
  }
  // The last rank makes fewer columns, of all of which each has own rows.
  if (op.turns_columns() && !op.shares_of(op.n).are_even()) state_.cuts_columns = true;
  if (product.pattern.declare_buffers == nullptr) return;
  product.pattern.declare_buffers(product, PatternBuffers(*this, prefix, copies));
}

void Declarer::declare_look_ups(LookUpLowering& one) {
  const Segment& product = one.op;
  const std::string prefix = prefix_ + one.part.name + "_";
  const int copies = one.schedule.reuse == Reuse::double_buffer ? 2 : 1;
  one.ids = input(one.part.ids);
  one.tables = input(one.part.weights[0]);
  one.out = one.landed = result(one.part, one.exchanges() && !one.by_nccl(), copies);
  if (!one.exchanges()) return;
  const int64_t block = product.row_shards().block(), cols = one.cols_each();
  if (one.is_staged()) {
    one.made = add(prefix + "part", op().dtype, BufferRole::local, product.m, cols);
  }
  if (one.by_nccl()) {
    one.landed = add(prefix + "landed", op().dtype, BufferRole::local, block * product.ranks, cols);
  } else if (plan_.buffers[one.out].role == BufferRole::output) {
    one.landed =
        add(prefix + "landed", op().dtype, BufferRole::symmetric, block, product.n, copies);
  }
}

void declare_buffers(Draft& draft) { Declarer(lowering(draft)).declare(); }

}  // namespace stretto
