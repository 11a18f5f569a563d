// Buffers of rows that collectives move by ids: what a rank gets of all tokens, each row where its
// token has it, or its choice. Nothing says where rows lie, so there are no tables.
#include <algorithm>

#include "lower/declarer.h"
#include "lower/emit_rows.h"

namespace stretto {

// Where a rank's rows come back as they went, who gets one weighs it at once, and nobody keeps it.
// Not where the caller wants to know what came, or where ranks have all rows, or those of other
// parts too.
bool Declarer::goes_and_returns(const OperatorSegment& part, int64_t tokens) {
  for (const int tensor : {part.input, part.ids, part.router_weights}) {
    if (plan_.buffers[input(tensor)].sharded_rows != tokens) return false;
  }
  return std::none_of(op().segments.begin(), op().segments.end(), [&](const OperatorSegment& one) {
    return counts_choices(op(), one) && op().stage(one.stages[0]).in[0] == part.ids;
  });
}

void Declarer::declare_by_ids(RoutedLowering& product, const std::string& prefix) {
  const OperatorSegment& part = product.part;
  RoutedBlocks blocks = blocks_of(product);
  blocks.by_choice = true;
  product.blocks = state_.routed_blocks.size();
  state_.routed_blocks.push_back(blocks);
  ids_of_blocks_.push_back({product.of_part, -1});  // nobody else's
  const bool gathers =
      product.has_sums() && !product.takes_choices(op()) && !goes_and_returns(part, blocks.tokens);
  const auto rows_of = [&](int tensor, const char* name) {
    GatheredRows rows;
    rows.tensor = tensor;
    rows.own = rows.all = input(tensor);
    rows.is_gathered = gathers;
    const Buffer own = plan_.buffers[rows.own];
    if (gathers) {
      const DType dtype = is_index(own.dtype) ? DType::i32 : own.dtype;
      rows.all = add(prefix + name, dtype, BufferRole::local, op().tensor(tensor).rows, own.cols);
    }
    return rows;
  };
  product.x = rows_of(part.input, "x");
  product.ids = rows_of(part.ids, "ids");
  if (product.has_sums()) {
    product.weights = rows_of(part.router_weights, "weights");
    product.out = result(part, false, 1);
    return;
  }
  const bool is_output = op().output_held(part.result).has_value();
  product.out = add_named(name_of(op().tensor(part.result)), op().dtype,
                          is_output ? BufferRole::output : BufferRole::local,
                          blocks.tokens * blocks.top_k, product.op.local_n());
  part_->results[static_cast<size_t>(part.result)] = product.out;
}

}  // namespace stretto
