// Buffers of rows that choose experts: their partitions, the tables of these, and sums.
#include <algorithm>

#include "lower/declarer.h"

namespace stretto {

GatheredRows Declarer::gathered(int tensor, const std::string& name, bool by_nccl, int copies) {
  GatheredRows rows;
  rows.tensor = tensor;
  rows.own = rows.all = input(tensor);
  const Buffer& own = plan_.buffers[rows.own];
  rows.is_gathered = op().ranks > 1 && own.sharded_rows > 0;
  if (!rows.is_gathered) return rows;
  const int64_t all = op().tensor(tensor).rows, cols = own.cols;
  const DType dtype = own.dtype;
  rows.all = by_nccl ? add(name, dtype, BufferRole::local, all, cols)
                     : add(name, dtype, BufferRole::symmetric, all, cols, copies);
  return rows;
}

// Sums that go by ids send own weights with themselves, unless tokens that went so brought them.
GatheredRows Declarer::gathered_weights(const RoutedLowering& product, const std::string& name,
                                        int copies) {
  const bool came_with_tokens =
      std::any_of(state_.routed.begin(), state_.routed.end(), [&](const RoutedLowering& other) {
        return other.number <= product.number && other.blocks == product.blocks &&
               other.of_part == product.of_part && other.goes_by_ids() && other.x.is_gathered;
      });
  const int tensor = product.part.router_weights;
  if (product.goes_by_ids() && !came_with_tokens) return {tensor, input(tensor), input(tensor)};
  return gathered(tensor, name, product.by_nccl(), copies);
}

uint16_t Declarer::add_of_partition(std::string name, DType dtype, BufferRole role, int partition,
                                    int64_t cols) {
  const Partition& of = plan_.partitions[static_cast<size_t>(partition)];
  const uint16_t buffer =
      add_named(std::move(name), dtype, role, int64_t{of.entries} * of.rows, cols);
  plan_.buffers[buffer].partition = static_cast<int16_t>(partition);
  return buffer;
}

const RoutedLowering* Declarer::first_part_of(const RoutedLowering& product) const {
  if (!state_.rows.share_partitions || product.of_part == 0) return nullptr;
  const auto found = std::find_if(
      state_.routed.begin(), state_.routed.end(),
      [&](const RoutedLowering& one) { return one.number == product.number && one.of_part == 0; });
  return &*found;
}

// All parts have entries and steps as the largest does, and blocks behind those of parts before.
RoutedBlocks Declarer::blocks_of_part(const RoutedLowering& product) const {
  RoutedBlocks own = blocks_of(product);
  if (!state_.rows.share_partitions) return own;
  for (const RoutedLowering& other : state_.routed) {
    if (other.number != product.number) continue;
    const RoutedBlocks blocks = blocks_of(other);
    own.entries = std::max(own.entries, blocks.entries);
    own.single = std::max(own.single, blocks.single);
    own.parts = std::max(own.parts, blocks.parts);
    if (other.of_part < product.of_part) own.blocks_before += blocks.count;
  }
  return own;
}

void Declarer::declare_partition(RoutedBlocks& blocks, int count, int64_t tokens,
                                 const std::string& prefix) {
  blocks.partition = static_cast<int>(plan_.partitions.size());
  plan_.partitions.push_back({prefix + "parts", count * blocks.entries, blocks.entry_rows, count,
                              expected_entries(blocks)});
  blocks.choices = add_of_partition(free_name(prefix + "choices"), DType::i32, BufferRole::local,
                                    blocks.partition, 1);
  blocks.experts_of =
      add(prefix + "experts", DType::i32, BufferRole::local, int64_t{count} * blocks.entries, 1);
  blocks.rows = add(prefix + "rows", DType::i32, BufferRole::local, tokens * blocks.top_k, 1);
  blocks.counts = add(prefix + "counts", DType::i32, BufferRole::local,
                      int64_t{count} * (blocks.experts + 1), 1);
  if (blocks.parts > 1) {
    blocks.part_counts = add(prefix + "part_counts", DType::i32, BufferRole::local,
                             int64_t{count} * blocks.parts, blocks.experts + 1);
  }
}

size_t Declarer::blocks_of_product(const RoutedLowering& product, const std::string& prefix) {
  RoutedBlocks blocks = blocks_of_part(product);
  if (product.sums_choices(op())) {
    blocks.by_choice = true;
    blocks.by_source = false;
    blocks.tokens_of_block = blocks.tokens;
    blocks.count = 1;
    blocks.part_counts =
        add(prefix + "counts", DType::i32, BufferRole::local, 1, blocks.experts + 1);
    state_.routed_blocks.push_back(blocks);
    ids_of_blocks_.push_back({product.of_part, -1});  // nobody else's
    return state_.routed_blocks.size() - 1;
  }
  const std::pair ids{product.of_part, product.part.ids};
  for (size_t i = 0; i < state_.routed_blocks.size(); ++i) {
    const RoutedBlocks& known = state_.routed_blocks[i];
    if (ids_of_blocks_[i] == ids && known.by_source == blocks.by_source &&
        known.experts == blocks.experts && known.entry_rows == blocks.entry_rows) {
      return i;
    }
  }
  if (const RoutedLowering* const first = first_part_of(product)) {
    const RoutedBlocks& shared = state_.routed_blocks[first->blocks];
    blocks.partition = shared.partition;
    blocks.choices = shared.choices;
    blocks.experts_of = shared.experts_of;
    blocks.rows = shared.rows;
    blocks.counts = shared.counts;
    blocks.part_counts = shared.part_counts;
  } else if (state_.rows.share_partitions) {
    int count = 0;
    for (const RoutedLowering& one : state_.routed) {
      if (one.number == product.number) count += blocks_of(one).count;
    }
    declare_partition(blocks, count, state_.op.rows(), product.part.name + "_");
    state_.set_rows_of_all_parts(blocks.rows, blocks.top_k);
  } else {
    declare_partition(blocks, blocks.count, blocks.tokens, prefix);
  }
  state_.routed_blocks.push_back(blocks);
  ids_of_blocks_.push_back(ids);
  return state_.routed_blocks.size() - 1;
}

uint16_t Declarer::kept_of(const RoutedLowering& product, const Tensor& made, DType dtype,
                           BufferRole role) {
  // What the caller gets has its tensor's name. Parts that share a partition share this.
  return add_of_partition(state_.rows.share_partitions ? made.name : name_of(made), dtype, role,
                          state_.routed_blocks[product.blocks].partition, product.op.local_n());
}

void Declarer::declare_routed(RoutedLowering& product) {
  const Segment& product_op = product.op;
  const OperatorSegment& part = product.part;
  const std::string prefix = prefix_ + part.name + "_";
  if (product.by_ids()) return declare_by_ids(product, prefix);
  const int copies = product.schedule.reuse == Reuse::double_buffer ? 2 : 1;
  const bool by_nccl = product.by_nccl();
  product.x = gathered(part.input, prefix + "x", by_nccl, copies);
  for (const int weight : part.weights) product.stacks.push_back(input(weight, true));
  for (const int id : part.stages) {
    const Stage& stage = op().stage(id);
    const bool follows = !makes_choices_rows(stage.kind) && stage.kind != StageKind::weigh;
    for (const int in : stage.in) {
      if (follows) input(in);
    }
  }
  const size_t known = state_.routed_blocks.size();
  product.ids = {part.ids, input(part.ids), input(part.ids), false};
  product.blocks = blocks_of_product(product, prefix);
  const bool is_new = product.blocks == known;
  if (is_new) {
    product.ids = gathered(part.ids, prefix + "ids", by_nccl, copies);
    if (product.goes_by_ids() && product.ids.is_gathered) {
      plan_.buffers[product.ids.all].dtype = DType::i32;
    }
  } else {
    product.ids.is_gathered = plan_.buffers[product.ids.own].sharded_rows > 0;
  }
  if (product.sums_choices(op())) {
    product.weights = gathered(part.router_weights, prefix + "weights", false, copies);
    return declare_sums(product, prefix, -1, copies);
  }
  const int partition = state_.routed_blocks[product.blocks].partition;
  const bool is_in_order = plan_.buffers[product.x.own].partition >= 0;
  const RoutedLowering* const first = first_part_of(product);
  if (first != nullptr) {
    product.permuted = first->permuted;
    product.kept = first->kept;
  } else if (product.schedule.permute == Permute::pass && !is_in_order &&
             !product_op.only_moves()) {
    product.permuted = add_of_partition(free_name(prefix + "permuted"), product_op.dtype,
                                        BufferRole::local, partition, product_op.local_k());
  }
  if (product.has_sums()) {
    product.weights = gathered_weights(product, prefix + "weights", copies);
    declare_sums(product, prefix, partition, copies);
    if (product_op.only_moves()) product.permuted = product.kept.front();
    return;
  }
  for (size_t i = product.kept.size(); i < part.stages.size(); ++i) {
    const int out = op().stage(part.stages[i]).out;
    const bool is_last = out == part.result;
    const bool is_output = is_last && op().output_held(out).has_value();
    product.kept.push_back(kept_of(product, op().tensor(out), is_last ? op().dtype : DType::fp32,
                                   is_output ? BufferRole::output : BufferRole::local));
  }
  product.out = product.kept.back();
  if (product_op.only_moves()) product.permuted = product.out;
  part_->results[static_cast<size_t>(part.result)] = product.out;
}

void Declarer::declare_sums(RoutedLowering& product, const std::string& prefix, int partition,
                            int copies) {
  const Segment& product_op = product.op;
  const std::vector<int>& stages = product.part.stages;
  for (size_t i = product.kept.size(); partition >= 0 && i + 1 < stages.size(); ++i) {
    const bool is_weighed = i + 2 == stages.size();
    product.kept.push_back(kept_of(product, op().tensor(op().stage(stages[i]).out),
                                   is_weighed ? op().dtype : DType::fp32, BufferRole::local));
  }
  product.out = result(product.part, product_op.adds_for_all(), copies);
  if (!product.adds_terms() || product.goes_by_ids()) return;
  if (product.sums_by_nccl()) {
    product.part_sums =
        add(prefix + "part", op().dtype, BufferRole::local, product_op.m, product_op.n);
  } else {
    product.slots = add(prefix + "slots", product.schedule.partials, BufferRole::symmetric,
                        product_op.ranks * product_op.row_shards().block(), product_op.n, copies);
  }
}

}  // namespace stretto
