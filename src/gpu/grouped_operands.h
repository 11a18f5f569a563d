// What a launch of the grouped kernel works on, and the parameters that say so.
#pragma once

#include <cstdint>

#include "gpu/device.h"
#include "gpu/tensor_map.h"
#include "stretto/device/grouped_task.h"

namespace stretto::cuda {

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

}  // namespace stretto::cuda
