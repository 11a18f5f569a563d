// declare_buffers: the buffers that tasks will name: the caller's tensors, what is kept from one
// segment to the next, and what products need on the way. Parts of the rows share what is the
// caller's.
#include <fmt/format.h>

#include <algorithm>

#include "lower/lowering.h"
#include "stretto/error.h"
#include "stretto/reference.h"

namespace stretto {
namespace {

class Declarer {
 public:
  explicit Declarer(Lowering& state)
      : state_(state), plan_(state.plan), is_one_(state.op.only_product() != nullptr) {}

  void declare() {
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

 private:
  const Operator& op() const { return part_->rows.op; }

  // Tensors are found by their names, so what is made on the way takes names that none of them has.
  std::string free_name(std::string name) const {
    while (plan_.find_buffer(name) || op().find_tensor(name)) name += '_';
    return name;
  }
  // Of what stages leave: with parts, the name of each part's own.
  std::string name_of(const Tensor& made) const {
    return prefix_.empty() ? made.name : free_name(prefix_ + made.name);
  }

  uint16_t add_named(std::string name, DType dtype, BufferRole role, int64_t rows, int64_t cols,
                     int copies = 1) {
    STRETTO_ASSERT(rows <= INT32_MAX, "a plan this large is not legal");
    STRETTO_ASSERT(!plan_.find_buffer(name), "a buffer has its name alone");
    plan_.buffers.push_back({std::move(name), dtype, role, static_cast<int32_t>(rows),
                             static_cast<int32_t>(cols), 0, static_cast<uint8_t>(copies)});
    return static_cast<uint16_t>(plan_.buffers.size() - 1);
  }

  uint16_t add(std::string name, DType dtype, BufferRole role, int64_t rows, int64_t cols,
               int copies = 1) {
    return add_named(free_name(std::move(name)), dtype, role, rows, cols, copies);
  }

  uint16_t add_tensor(std::string name, const Tensor& tensor, Held held, BufferRole role,
                      int copies = 1) {
    const RowShards shards{tensor.rows, op().ranks};
    const bool is_stack = tensor.matrices > 1 || held == Held::experts;
    // What ranks have of a stack's matrices lies below one another.
    const int64_t rows = is_stack ? slice_of(op(), *op().find_tensor(tensor.name), held, 0).rows()
                         : held == Held::rows ? shards.block()
                                              : op().team_rows(tensor);
    const ColShards cols = op().shares_of(tensor.cols, tensor.unit, tensor.team);
    const uint16_t buffer = add_named(std::move(name), tensor.dtype, role, rows,
                                      held == Held::cols ? cols.block() : tensor.cols, copies);
    if (held == Held::cols) set_shares(buffer, cols);
    if (held == Held::rows && !is_stack) {
      plan_.buffers[buffer].sharded_rows = static_cast<int32_t>(tensor.rows);
    }
    if (held == Held::experts && tensor.matrices % op().ranks != 0) {
      plan_.buffers[buffer].sharded_rows = static_cast<int32_t>(tensor.matrices * tensor.rows);
    }
    return buffer;
  }

  void set_shares(uint16_t buffer, const ColShards& cols) {
    if (cols.are_even()) return;
    plan_.buffers[buffer].sharded_cols = static_cast<int32_t>(cols.cols);
    state_.cuts_columns = true;
  }

  // What the caller gives; rows of weights are columns of what they make.
  uint16_t input(int id, bool is_weight = false) {
    const Tensor& tensor = state_.op.tensor(id);
    if (tensor.stage >= 0) return part_->results[static_cast<size_t>(id)];
    if (const auto known = plan_.find_buffer(tensor.name)) return *known;
    const uint16_t buffer = add_callers(id, tensor.held, BufferRole::input);
    if (is_weight && tensor.held == Held::rows) {
      const ColShards shares = op().shares_of(tensor.rows, 0, tensor.team);
      Buffer& weight = plan_.buffers[buffer];
      if (tensor.matrices == 1) weight.rows = static_cast<int32_t>(shares.block());
      weight.sharded_rows = shares.are_even() ? 0 : static_cast<int32_t>(shares.cols);
    }
    return buffer;
  }

  // A tensor of the caller's, with the rows of all parts.
  uint16_t add_callers(int id, Held held, BufferRole role) {
    const Tensor& tensor = state_.op.tensor(id);
    const uint16_t buffer = add_tensor(tensor.name, tensor, held, role);
    state_.of_callers_rows.resize(plan_.buffers.size(), false);
    const std::vector<bool>& has_rows = state_.rows.has_rows;
    if (!has_rows.empty()) state_.of_callers_rows[buffer] = has_rows[static_cast<size_t>(id)];
    return buffer;
  }

  // What a segment leaves. Peers may write to what is symmetric or the caller's.
  uint16_t result(const OperatorSegment& segment, bool peers_write, int copies) {
    const auto id = static_cast<size_t>(segment.result);
    const Tensor& tensor = op().tensor(segment.result);
    const std::optional<Held> output = op().output_held(segment.result);
    if (output == segment.result_held) {
      const bool is_first = part_ == &state_.parts.front();
      return part_->results[id] =
                 is_first ? add_callers(segment.result, segment.result_held, BufferRole::output)
                          : state_.parts.front().results[id];
    }
    // Its name is the output's, where that is held otherwise.
    return part_->results[id] = add_tensor(
               output ? free_name(prefix_ + tensor.name + "_own") : name_of(tensor), tensor,
               segment.result_held, peers_write ? BufferRole::symmetric : BufferRole::local,
               peers_write ? copies : 1);
  }

  void declare_rows(const OperatorSegment& segment) {
    if (segment.is_gather()) {
      if (part_ == &state_.parts.front()) {
        add_callers(segment.result, segment.result_held, BufferRole::output);
      }
      return;
    }
    for (const int id : segment.stages) {
      const Stage& stage = op().stage(id);
      for (const int in : stage.in) input(in);
      OperatorSegment one = segment;
      one.result = stage.out;
      one.result_held = op().tensor(stage.out).held;
      result(one, false, 1);
    }
  }

  void declare_product(SegmentLowering& product) {
    const Segment& op = product.op;
    const Schedule& schedule = product.schedule;
    const Operator& whole = product.whole;
    const std::string prefix = prefix_ + (is_one_ ? "" : product.part.name + "_");
    BufferIds& ids = product.buffers;
    const int copies = schedule.reuse == Reuse::double_buffer ? 2 : 1;
    ids.a = input(product.part.input);
    for (const int weight : product.part.weights) product.weights.push_back(input(weight, true));
    ids.b = product.weights[0];
    for (const int id : product.part.stages) {
      for (const int in : whole.stage(id).in) input(in);
    }
    const bool is_pushed = product.pattern == Pattern::exchange_output && !product.by_nccl();
    const bool peers_write = schedule.reduction == Reduction::two_shot || is_pushed;
    if (!product.normed) ids.out = result(product.part, peers_write, copies);
    // A library stores its products, and what follows them reads them from memory. Scores stay as
    // they are, so that whoever multiplies, the same experts are chosen.
    const bool is_stored =
        product.follows_behind() && whole.tensor(product.part.result).dtype != DType::fp32;
    const DType kept = is_stored ? op.dtype : DType::fp32;
    for (const int id : product.part.stages) {
      const int out = whole.stage(id).out;
      product.kept.push_back(out == product.part.result
                                 ? ids.out
                                 : add_named(name_of(whole.tensor(out)), kept, BufferRole::local,
                                             op.local_m(), op.local_n()));
      if (op.kind.weight == Held::rows) set_shares(product.kept.back(), op.shares_of(op.n));
    }
    if (const int ranges = std::max(product.splits(), product.phases()); ranges > 1) {
      ids.ranges = add(prefix + "ranges", DType::fp32, BufferRole::local, ranges * op.local_m(),
                       op.local_n());
      if (op.kind.weight == Held::rows) set_shares(ids.ranges, op.shares_of(op.n));
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
        if (product.by_nccl()) {
          ids.by_peer = add(prefix + "landed", op.dtype, BufferRole::local, op.local_m() * op.ranks,
                            product.cols_each());
          ids.exchanged = add(prefix + "in", op.dtype, BufferRole::local, op.local_m(), op.k);
        } else {
          ids.exchanged =
              add(prefix + "in", op.dtype, BufferRole::symmetric, op.local_m(), op.k, copies);
        }
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

  // What ranks have some rows of, and each needs all of.
  GatheredRows gathered(int tensor, const std::string& name, bool by_nccl, int copies) {
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

  uint16_t add_of_partition(std::string name, DType dtype, BufferRole role, int partition,
                            int64_t cols) {
    const Partition& of = plan_.partitions[static_cast<size_t>(partition)];
    const uint16_t buffer =
        add_named(std::move(name), dtype, role, int64_t{of.entries} * of.rows, cols);
    plan_.buffers[buffer].partition = static_cast<int16_t>(partition);
    return buffer;
  }

  // The partition of an earlier product of the same choices of the same part, or a new one.
  size_t blocks_of_product(const RoutedLowering& product, const std::string& prefix) {
    RoutedBlocks blocks = blocks_of(product);
    const std::pair ids{product.of_part, product.part.ids};
    for (size_t i = 0; i < state_.routed_blocks.size(); ++i) {
      const RoutedBlocks& known = state_.routed_blocks[i];
      if (ids_of_blocks_[i] == ids && known.by_source == blocks.by_source &&
          known.experts == blocks.experts && known.entry_rows == blocks.entry_rows) {
        return i;
      }
    }
    blocks.partition = static_cast<int>(plan_.partitions.size());
    plan_.partitions.push_back({prefix + "parts", blocks.count * blocks.entries, blocks.entry_rows,
                                blocks.count, expected_entries(blocks)});
    blocks.choices = add_of_partition(free_name(prefix + "choices"), DType::i32, BufferRole::local,
                                      blocks.partition, 1);
    blocks.experts_of = add(prefix + "experts", DType::i32, BufferRole::local,
                            int64_t{blocks.count} * blocks.entries, 1);
    blocks.rows =
        add(prefix + "rows", DType::i32, BufferRole::local, blocks.tokens * blocks.top_k, 1);
    blocks.counts = add(prefix + "counts", DType::i32, BufferRole::local,
                        int64_t{blocks.count} * (blocks.experts + 1), 1);
    if (blocks.parts > 1) {
      blocks.part_counts = add(prefix + "part_counts", DType::i32, BufferRole::local,
                               int64_t{blocks.count} * blocks.parts, blocks.experts + 1);
    }
    state_.routed_blocks.push_back(blocks);
    ids_of_blocks_.push_back(ids);
    return state_.routed_blocks.size() - 1;
  }

  void declare_routed(RoutedLowering& product) {
    const Segment& product_op = product.op;
    const OperatorSegment& part = product.part;
    const std::string prefix = prefix_ + part.name + "_";
    const int copies = product.schedule.reuse == Reuse::double_buffer ? 2 : 1;
    const bool by_nccl = product.by_nccl();
    product.x = gathered(part.input, prefix + "x", by_nccl, copies);
    for (const int weight : part.weights) product.stacks.push_back(input(weight, true));
    for (const int id : part.stages) {
      const Stage& stage = op().stage(id);
      const bool follows = !multiplies(stage.kind) && stage.kind != StageKind::weigh;
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
    } else {
      product.ids.is_gathered = plan_.buffers[product.ids.own].sharded_rows > 0;
    }
    const int partition = state_.routed_blocks[product.blocks].partition;
    const bool is_in_order = plan_.buffers[product.x.own].partition >= 0;
    if (product.schedule.permute == Permute::pass && !is_in_order) {
      product.permuted = add_of_partition(free_name(prefix + "permuted"), product_op.dtype,
                                          BufferRole::local, partition, product_op.local_k());
    }
    if (product.has_sums()) {
      product.weights = gathered(part.router_weights, prefix + "weights", by_nccl, copies);
      declare_sums(product, prefix, partition, copies);
      return;
    }
    for (const int id : part.stages) {
      const int out = op().stage(id).out;
      const bool is_last = out == part.result;
      const bool is_output = is_last && op().output_held(out).has_value();
      product.kept.push_back(add_of_partition(
          name_of(op().tensor(out)), is_last ? op().dtype : DType::fp32,
          is_output ? BufferRole::output : BufferRole::local, partition, product_op.local_n()));
    }
    product.out = product.kept.back();
    part_->results[static_cast<size_t>(part.result)] = product.out;
  }

  void declare_sums(RoutedLowering& product, const std::string& prefix, int partition, int copies) {
    const Segment& product_op = product.op;
    const std::vector<int>& stages = product.part.stages;
    for (size_t i = 0; i + 1 < stages.size(); ++i) {
      const bool is_weighed = i + 2 == stages.size();
      product.kept.push_back(add_of_partition(name_of(op().tensor(op().stage(stages[i]).out)),
                                              is_weighed ? op().dtype : DType::fp32,
                                              BufferRole::local, partition, product_op.local_n()));
    }
    product.out = result(product.part, product_op.kind.out == Edge::all_reduce, copies);
    if (product_op.ranks == 1) return;
    if (product.by_nccl()) {
      product.part_sums =
          add(prefix + "part", op().dtype, BufferRole::local, product_op.m, product_op.n);
    } else {
      product.slots = add(prefix + "slots", product.schedule.partials, BufferRole::symmetric,
                          product_op.ranks * product_op.row_shards().block(), product_op.n, copies);
    }
  }

  // Peers must not write to the caller's tensor before its rank's run begins, so they write to a
  // buffer that alternates, and it is copied from there.
  void declare_exchange(SegmentLowering& product, const std::string& prefix, int copies) {
    const Segment& op = product.op;
    BufferIds& ids = product.buffers;
    if (product.by_nccl()) {
      ids.by_peer = add(prefix + "dealt", op.dtype, BufferRole::local, op.local_m() * op.ranks,
                        product.cols_each());
      if (product.deals_columns_behind()) {
        ids.part = add(prefix + "part", op.dtype, BufferRole::local, op.local_m(), op.n);
      }
      return;
    }
    if (product.stages_partials()) {
      ids.part = add(prefix + "part", op.dtype, BufferRole::local, op.local_m(), op.n);
    }
    const bool is_callers = plan_.buffers[ids.out].role == BufferRole::output;
    ids.exchanged = is_callers ? add(prefix + "landed", op.dtype, BufferRole::symmetric, op.m,
                                     product.cols_each(), copies)
                               : ids.out;
    set_shares(ids.exchanged, product.col_shards());
  }

  // As with products' all-to-all: what peers write lands beside what is the caller's.
  void declare_look_ups(LookUpLowering& one) {
    const Segment& product = one.op;
    const std::string prefix = one.part.name + "_";
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
      one.landed =
          add(prefix + "landed", op().dtype, BufferRole::local, block * product.ranks, cols);
    } else if (plan_.buffers[one.out].role == BufferRole::output) {
      one.landed =
          add(prefix + "landed", op().dtype, BufferRole::symmetric, block, product.n, copies);
    }
  }

  Lowering& state_;
  Plan& plan_;
  const bool is_one_;
  PartLowering* part_ = nullptr;  // whose buffers are declared
  std::string prefix_;            // of their names
  // By Lowering::routed_blocks: part of the rows, and tensor of choices.
  std::vector<std::pair<size_t, int>> ids_of_blocks_;
};

}  // namespace

void declare_buffers(Draft& draft) { Declarer(lowering(draft)).declare(); }

}  // namespace stretto
