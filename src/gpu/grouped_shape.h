// Which configuration of the grouped kernel a product of experts takes, by what is known of it
// ahead of a launch.
#pragma once

#include <cstdint>

#include "stretto/device/grouped_task.h"

namespace stretto::cuda {

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

}  // namespace stretto::cuda
