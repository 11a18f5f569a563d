// Declarer: what declare_buffers declares, segment by segment and of each part by part.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "lower/lowering.h"

namespace stretto {

class Declarer {
 public:
  explicit Declarer(Lowering& state)
      : state_(state), plan_(state.plan), is_one_(state.op.only_product() != nullptr) {}

  void declare();

 private:
  friend class PatternBuffers;

  const Operator& op() const { return part_->rows.op; }

  // declarer.cpp: buffers of tensors.
  // Tensors are found by their names, so what is made on the way takes names that none of them has.
  std::string free_name(std::string name) const;
  // Of what stages leave: with parts, the name of each part's own.
  std::string name_of(const Tensor& made) const;
  uint16_t add_named(std::string name, DType dtype, BufferRole role, int64_t rows, int64_t cols,
                     int copies = 1);
  uint16_t add(std::string name, DType dtype, BufferRole role, int64_t rows, int64_t cols,
               int copies = 1);
  uint16_t add_tensor(std::string name, const Tensor& tensor, Held held, BufferRole role,
                      int copies = 1);
  void set_shares(uint16_t buffer, const ColShards& cols);
  // A buffer of the part's rows alone, for what has them in stripes of a caller's tensor.
  std::optional<uint16_t> without_stripes(const SegmentLowering& product, uint16_t buffer,
                                          std::string name);
  // What the caller gives; rows of weights are columns of what they make.
  uint16_t input(int id, bool is_weight = false);
  // A tensor of the caller's, with the rows of all parts.
  uint16_t add_callers(int id, Held held, BufferRole role);
  // What a segment leaves. Peers may write to what is symmetric or the caller's.
  uint16_t result(const OperatorSegment& segment, bool peers_write, int copies);

  // declare_buffers.cpp
  void declare_rows(const OperatorSegment& segment);
  void declare_product(SegmentLowering& product);
  // As with products' all-to-all: what peers write lands beside what is the caller's.
  void declare_look_ups(LookUpLowering& one);

  // declare_routed.cpp: rows that choose experts.
  void declare_routed(RoutedLowering& product);
  void declare_by_ids(RoutedLowering& product, const std::string& prefix);
  bool goes_and_returns(const OperatorSegment& part, int64_t tokens);
  void declare_sums(RoutedLowering& product, const std::string& prefix, int partition, int copies);
  // What ranks have some rows of, and each needs all of.
  GatheredRows gathered(int tensor, const std::string& name, bool by_nccl, int copies);
  GatheredRows gathered_weights(const RoutedLowering& product, const std::string& name, int copies);
  uint16_t add_of_partition(std::string name, DType dtype, BufferRole role, int partition,
                            int64_t cols);
  // The partition of an earlier product of the same choices of the same part, or a new one.
  size_t blocks_of_product(const RoutedLowering& product, const std::string& prefix);
  // Where parts share a partition: the product for the first part, which has declared it. Null for
  // that part, and where each part has its own.
  const RoutedLowering* first_part_of(const RoutedLowering& product) const;
  RoutedBlocks blocks_of_part(const RoutedLowering& product) const;
  void declare_partition(RoutedBlocks& blocks, int count, int64_t tokens,
                         const std::string& prefix);
  // Where tiles of a stage are kept, in the order of the partition.
  uint16_t kept_of(const RoutedLowering& product, const Tensor& made, DType dtype, BufferRole role);

  Lowering& state_;
  Plan& plan_;
  const bool is_one_;
  PartLowering* part_ = nullptr;  // whose buffers are declared
  std::string prefix_;            // of their names
  // By Lowering::routed_blocks: part of the rows, and tensor of choices.
  std::vector<std::pair<size_t, int>> ids_of_blocks_;
};

// What a pattern may declare for a product, whose name stands before that of each.
class PatternBuffers {
 public:
  PatternBuffers(Declarer& declarer, std::string prefix, int copies)
      : declarer_(declarer), prefix_(std::move(prefix)), copies_(copies) {}

  uint16_t local(std::string_view name, DType dtype, int64_t rows, int64_t cols) const {
    return declarer_.add(named(name), dtype, BufferRole::local, rows, cols);
  }
  // What peers write: in as many copies as the schedule's reuse needs.
  uint16_t symmetric(std::string_view name, DType dtype, int64_t rows, int64_t cols) const {
    return declarer_.add(named(name), dtype, BufferRole::symmetric, rows, cols, copies_);
  }
  void set_shares(uint16_t buffer, const ColShards& cols) const {
    declarer_.set_shares(buffer, cols);
  }
  // Peers must not write to the caller's tensor before its rank's run begins.
  bool is_callers(uint16_t buffer) const {
    return declarer_.plan_.buffers[buffer].role == BufferRole::output;
  }

 private:
  std::string named(std::string_view name) const { return prefix_ + std::string(name); }

  Declarer& declarer_;
  const std::string prefix_;
  const int copies_;
};

}  // namespace stretto
