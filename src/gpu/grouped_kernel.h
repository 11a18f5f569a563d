// The grouped kernel (stretto/device/grouped_sm90.h), compiled for one configuration.
#pragma once

#include <string>

#include "gpu/compiler.h"
#include "gpu/device.h"
#include "gpu/tensor_map.h"
#include "stretto/device/grouped_task.h"

namespace stretto::cuda {

// "256x128x64 stages 4 bf16 gathers swiglu"; of ranges of K "128x128x64/2 stages 6 bf16"
std::string describe(const device::GroupedConfig& config);

// Why no kernel can be made of this configuration; empty when it can.
std::string why_illegal(const device::GroupedConfig& config);

// What is known ahead of a launch, about.
struct GroupedShape {
  int64_t rows = 0;     // of all experts together
  int64_t experts = 1;  // that have some
  int64_t columns = 0;  // of an expert's weights
  int64_t k = 0;
};

// The tile that is fast for this shape (op/expert_tiles.h), with the other choices of `config`. It
// is right for any number of rows.
device::GroupedConfig fitted(device::GroupedConfig config, const GroupedShape& shape, int num_sms);

// How many tiles it has then.
int64_t expected_tiles(const device::GroupedConfig& config, const GroupedShape& shape);

// Of how many of the last experts tiles are best half as high, so that `blocks` blocks, which take
// them last, end sooner together. It is right for any number.
int64_t low_experts(const device::GroupedConfig& config, const GroupedShape& shape, int blocks);

// The source that the compiler gets. Throws UsageError(why_illegal()).
std::string grouped_source(const device::GroupedConfig& config);

// Tiles of the launch that makes another's rows of tokens, which counts those that it has stored:
// where, how high they are at most, from which expert on half as high, and how many lie next to
// each other.
struct CountedTiles {
  DevicePtr words = 0;  // 0: none are counted
  int64_t rows = 0, low_from = 0, times = 0;
};

// What one launch works on, in this GPU's memory. What is ahead of the launch on its stream may
// make the partition, unless it stands early: only how many rows it has at most is known here.
struct GroupedOperands {
  int64_t experts = 1;
  int64_t most_rows = 0;    // of the partition, with those that no choice has
  int64_t entry_rows = 1;   // of the partition: an expert's rows begin at a multiple of it
  int64_t low_experts = 0;  // so many of the last experts have tiles half as high
  // Rows of tokens: the partition's, or those that sources name. Rows of the output: likewise.
  Matrix tokens, output;
  // Of each expert as many rows as the output has columns, from the first expert's first to the
  // last one's last; of swiglu those of the gate, and `up` is of the other product, which lies
  // alike.
  Matrix weights, up;
  int64_t expert_rows = 0;       // from one expert's first row to the next one's
  DevicePtr rows_of_expert = 0;  // int32, by expert
  DevicePtr sources = 0;         // int32, by row of the partition, where the kernel gathers:
  int64_t per = 1;               // what stands there over `per` is the row's row of tokens
  DevicePtr targets = 0;         // int32, where it scatters; below 0: nowhere
  DevicePtr row_weights = 0;     // float, where it weighs
  DevicePtr tickets = 0;         // uint32, two zeros; of one launch at a time, which leaves zeros
  // What is ahead of the launch on its stream is another of experts, which writes neither the
  // partition nor the weights: both are read before it has ended.
  bool is_partition_early = false;
  // uint32, as many zeros as stored_words() says, where tiles are counted once they are stored; of
  // one launch at a time, behind which the one that awaits them leaves zeros. 0: nowhere.
  DevicePtr stored = 0;
  // What is ahead of the launch makes its tokens, tile by tile, each of which is awaited by those
  // that read it. It has the same partition; nothing of this launch's output is read or written by
  // it. Without words: it is awaited as a whole.
  CountedTiles ahead;
};

// For what `stored` says of one launch, how the one behind it awaits its tiles.
CountedTiles counted_tiles(const device::GroupedConfig& config, const GroupedOperands& operands);

// Throws UsageError when the operands do not fit together or to the kernel.
device::GroupedParams grouped_params(const device::GroupedConfig& config,
                                     const GroupedOperands& operands);

// Makes of `params`, those of `before`, the ones of `now`, whose matrices may lie elsewhere, with
// other rows; all else is as before. Maps of what lies as it did are kept, those of what only lies
// elsewhere are moved, which takes the driver half as long as to encode them, and there are many.
void change_matrices(device::GroupedParams& params, const device::GroupedConfig& config,
                     const GroupedOperands& before, const GroupedOperands& now);

class GroupedKernel {
 public:
  // For the current GPU, which must be `device`.
  GroupedKernel(const Device& device, const Compiler& compiler,
                const device::GroupedConfig& config);

  const device::GroupedConfig& config() const { return config_; }
  const Kernel& kernel() const { return kernel_; }
  // The result is the same to the bit for any number of blocks; of ranges a multiple of these is
  // taken, one each at least. `overlap` as for Kernel::launch().
  void launch(const Stream& stream, int blocks, const device::GroupedParams& params,
              bool overlap = false) const;

 private:
  device::GroupedConfig config_;
  Kernel kernel_;
};

}  // namespace stretto::cuda
