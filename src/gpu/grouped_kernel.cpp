#include "gpu/grouped_kernel.h"

#include <fmt/format.h>

#include <algorithm>

#include "gpu/kernel_words.h"
#include "stretto/error.h"

namespace stretto::cuda {

using device::Follower;
using device::GroupedConfig;
using device::kTileK;

std::string describe(const GroupedConfig& config) {
  return fmt::format(
      "{}x{}x{}{} stages {}{} {}{}{}{}{}", config.columns, config.rows, kTileK,
      config.ranges > 1 ? fmt::format("/{}", config.ranges) : "", config.stages,
      config.together > 1 ? fmt::format(" together {}", config.together) : "",
      config.bf16 ? "bf16" : "fp16", config.gathers ? " gathers" : "",
      config.scatters ? " scatters" : "", config.weighs ? " weighs" : "",
      config.follower != Follower::none ? fmt::format(" {}", name_of(config.follower)) : "");
}

std::string why_illegal(const GroupedConfig& config) {
  if (config.columns != 128 && config.columns != 192 && config.columns != 256) {
    return fmt::format("a grouped kernel's tiles have 128, 192 or 256 columns, not {}",
                       config.columns);
  }
  const int most = device::most_rows_of(config);
  if (config.rows < device::kUnitRows || config.rows > most ||
      config.rows % device::kUnitRows != 0) {
    const bool by_index = config.gathers || config.scatters || config.weighs;
    return fmt::format(
        "a grouped kernel's tiles of {} columns have a multiple of {} rows up to {}{}, not {}",
        config.columns, device::kUnitRows, most,
        by_index ? " where rows are gathered, stored by index or weighed" : "", config.rows);
  }
  // Clusters of four find too few places on a GPU.
  if (config.ranges != 1 && config.ranges != 2) {
    return fmt::format("a grouped kernel has 1 or 2 ranges of K, not {}", config.ranges);
  }
  // Of others the compiler spills some bytes where ranges are added up.
  if (config.ranges > 1 && (config.columns != 128 || config.rows > 128)) {
    return fmt::format(
        "a grouped kernel's tiles of ranges have 128 columns and at most 128 rows, not {} and {}",
        config.columns, config.rows);
  }
  if (config.stages < 2 || config.stages >= device::kTileNotes - 3) {
    return fmt::format("stages must be 2 to {}", device::kTileNotes - 4);
  }
  const device::GroupedLayout layout = device::layout_of(config);
  const int row_chunks = (config.rows + device::kTokenChunkRows - 1) / device::kTokenChunkRows;
  const int most_chunks = row_chunks * layout.chunks_across;
  if (config.together < 1 || config.together > most_chunks) {
    return fmt::format("a grouped kernel of these tiles hands over 1 to {} chunks together, not {}",
                       most_chunks, config.together);
  }
  if (config.together > 1 && config.ranges > 1) {
    return "a grouped kernel of one range hands over several chunks together";
  }
  return why_no_room(config.stages, layout.shared_bytes);
}

std::string grouped_source(const GroupedConfig& config) {
  if (const std::string why = why_illegal(config); !why.empty()) throw UsageError(why);
  return fmt::format(R"(#include "stretto/device/grouped_sm90.h"
using namespace stretto::device;
constexpr GroupedConfig kConfig{{.columns = {}, .rows = {}, .stages = {}, .ranges = {},
                                .together = {}, .bf16 = {}, .gathers = {}, .scatters = {}, .weighs = {},
                                .follower = Follower::{}}};
extern "C" __global__ void __launch_bounds__(layout_of(kConfig).threads, 1)
stretto_grouped(const __grid_constant__ GroupedParams params) {{
  grouped_sm90<kConfig>(params);
}}
)",
                     config.columns, config.rows, config.stages, config.ranges, config.together,
                     config.bf16, config.gathers, config.scatters, config.weighs,
                     name_of(config.follower));
}

GroupedKernel::GroupedKernel(const Device& device, const Compiler& compiler,
                             const GroupedConfig& config)
    : config_(config),
      kernel_(compiler.compile(grouped_source(config), device.arch()).cubin, "stretto_grouped",
              device::layout_of(config).shared_bytes) {}

void GroupedKernel::launch(const Stream& stream, int blocks, const device::GroupedParams& params,
                           bool overlap) const {
  STRETTO_ASSERT(blocks > 0, "a grouped kernel has blocks");
  const int ranges = config_.ranges;
  kernel_.launch(stream, std::max(ranges, blocks / ranges * ranges),
                 device::layout_of(config_).threads, ranges, &params, overlap);
}

}  // namespace stretto::cuda
