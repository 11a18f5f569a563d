#include "gpu/grouped_kernel.h"

#include <fmt/format.h>

#include <algorithm>

#include "gpu/kernel_words.h"
#include "op/expert_tiles.h"
#include "stretto/error.h"

namespace stretto::cuda {
namespace {

using device::Follower;
using device::GroupedConfig;
using device::kTileK;

constexpr uint32_t kBand = 8;  // 4 to 32 are the same to 3 %

void demand(bool holds, const std::string& why) {
  if (!holds) throw UsageError(why);
}

// One map has both, with what lies between them as a stride.
void check_up(const GroupedOperands& o) {
  const Matrix &gate = o.weights, &up = o.up;
  demand(gate.rows == up.rows && gate.columns == up.columns && gate.stride == up.stride &&
             gate.dtype == up.dtype,
         "weights of gate and of up lie alike");
  const DevicePtr apart =
      up.address > gate.address ? up.address - gate.address : gate.address - up.address;
  demand(apart != 0 && apart % 16 == 0 && apart < DevicePtr{1} << 40,
         fmt::format("weights of gate and of up are a multiple of 16 bytes apart, below 2^40, not "
                     "{}: allocate them together",
                     apart));
}

void check_operands(const GroupedConfig& config, const GroupedOperands& o) {
  const int64_t k = o.tokens.columns, n = o.output.columns;
  const int halves = device::layout_of(config).halves;
  demand(
      o.experts >= 1 && o.experts <= device::kMostExperts,
      fmt::format("a grouped kernel has 1 to {} experts, not {}", device::kMostExperts, o.experts));
  demand(o.weights.columns == k,
         fmt::format("weights have as many columns as tokens, {}, not {}", k, o.weights.columns));
  demand(o.expert_rows >= n && o.weights.rows == (o.experts - 1) * o.expert_rows + n,
         fmt::format("{} experts of {} columns, {} rows apart, have {} rows of weights, not {}",
                     o.experts, n, o.expert_rows, (o.experts - 1) * o.expert_rows + n,
                     o.weights.rows));
  if (halves == 2) check_up(o);
  const int64_t least_k = (2 * config.ranges - 1) * int64_t{kTileK};
  demand(k > least_k,
         fmt::format("a grouped kernel{} needs K over {}, not {}",
                     config.ranges > 1 ? fmt::format(" of {} ranges", config.ranges) : "", least_k,
                     k));
  demand(n % 8 == 0,
         fmt::format("a grouped kernel's output has a multiple of 8 columns, not {}", n));
  const DType type = config.bf16 ? DType::bf16 : DType::fp16;
  demand(o.tokens.dtype == type && o.weights.dtype == type && o.output.dtype == type,
         fmt::format("all matrices of this kernel are {}", to_string(type)));
  demand(o.most_rows >= 0 && o.most_rows < INT32_MAX, "a partition has fewer than 2^31-1 rows");
  demand(
      config.gathers || o.tokens.rows >= o.most_rows,
      fmt::format("{} sorted rows do not fit into {} rows of tokens", o.most_rows, o.tokens.rows));
  demand(config.scatters || o.output.rows >= o.most_rows,
         fmt::format("{} sorted rows do not fit into {} rows of the output", o.most_rows,
                     o.output.rows));
  demand(o.low_experts >= 0 && o.low_experts <= o.experts,
         fmt::format("of {} experts 0 to {} have low tiles, not {}", o.experts, o.experts,
                     o.low_experts));
  demand(o.entry_rows >= 1 && o.entry_rows <= INT32_MAX, "entries of a partition have rows");
  demand(o.rows_of_expert != 0, "a grouped kernel needs the numbers of its experts' rows");
  demand(o.tickets != 0, "a grouped kernel needs two words of zeros");
  demand(!config.gathers || o.sources != 0, "a kernel that gathers needs the rows' sources");
  demand(o.per >= 1 && o.per <= INT32_MAX, "a token has 1 choice or more");
  demand(!config.scatters || o.targets != 0, "a kernel that scatters needs the rows' targets");
  demand(!config.weighs || o.row_weights != 0, "a kernel that weighs needs the rows' weights");
  demand(o.stored == 0 || !config.scatters, "tiles are counted where rows are stored in order");
  if (o.ahead.words == 0) return;
  demand(
      device::can_await_tiles(config) && !config.weighs && o.is_partition_early,
      "tiles of the kernel ahead are awaited by one without ranges, gathering or weights of rows, "
      "whose partition stands early");
  demand(o.ahead.rows >= device::kUnitRows && o.ahead.times >= 1 && o.ahead.low_from >= 0,
         "tiles that are awaited have rows and are counted");
}

template <typename T>
const T* pointer(DevicePtr address) {
  return reinterpret_cast<const T*>(address);
}

}  // namespace

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

GroupedConfig fitted(GroupedConfig config, const GroupedShape& shape, int num_sms) {
  const int64_t rows = shape.rows / std::max<int64_t>(shape.experts, 1);
  const bool by_index = config.scatters || config.weighs;
  const bool joins = config.follower == Follower::swiglu;
  const ExpertLoad load{rows, shape.experts, shape.columns, shape.k, by_index, joins};
  const ExpertTile tile = expert_tile(load, config.gathers, num_sms);
  config.columns = tile.columns;
  config.rows = tile.rows;
  config.stages = tile.stages;
  config.ranges = tile.ranges;
  config.together = tile.together;
  while (config.stages > 2 && !why_illegal(config).empty()) --config.stages;
  // Other followers and warps leave room for another.
  for (GroupedConfig more = config; ++more.stages, why_illegal(more).empty();) config = more;
  return config;
}

namespace {

// A tile half as high loads as many weights, and waits for the L2 cache sooner. Not measured.
constexpr double kLowTile = 0.65;
constexpr double kWorthLowTiles = 0.95;
constexpr int64_t kLeastHigh = 96;  // that may be halved: rows

// When blocks end that take `high` tiles, each of time 1, and behind them `low` ones.
double end_of(int64_t high, int64_t low, int64_t blocks) {
  const int64_t rounds = high / blocks, late = high % blocks;
  const auto first = static_cast<double>(rounds);
  const auto done_by = [&](double end) {
    const auto each = [&](double free) {
      return std::max<int64_t>(0, static_cast<int64_t>((end - free) / kLowTile + 1e-9));
    };
    return (blocks - late) * each(first) + late * each(first + 1);
  };
  double end = late > 0 ? first + 1 : first;
  if (done_by(end) >= low) return end;
  for (int64_t more = 1;; ++more) {
    const double step = kLowTile * static_cast<double>(more);
    for (const double at : {first + step, first + 1 + step}) {
      if (at > end && done_by(at) >= low) return at;
    }
  }
}

}  // namespace

int64_t expected_tiles(const GroupedConfig& config, const GroupedShape& shape) {
  const int64_t experts = shape.experts, rows = shape.rows / std::max<int64_t>(experts, 1);
  const int64_t cuts = (rows + config.rows - 1) / config.rows;
  return experts * cuts * ((shape.columns + config.columns - 1) / config.columns);
}

int64_t low_experts(const GroupedConfig& config, const GroupedShape& shape, int blocks) {
  const int64_t experts = std::max<int64_t>(shape.experts, 1), rows = shape.rows / experts;
  const int64_t cuts = (rows + config.rows - 1) / config.rows;
  if (cuts == 0 || rows / cuts < kLeastHigh) return 0;
  const int64_t tiles = expected_tiles(config, shape) / experts;
  int64_t found = 0;
  double best = kWorthLowTiles * end_of(experts * tiles, 0, blocks);
  for (int64_t low = 1; low <= experts; ++low) {
    const double end = end_of((experts - low) * tiles, 2 * low * tiles, blocks);
    if (end >= best) continue;
    best = end;
    found = low;
  }
  return found;
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

namespace {

// One map has both, the one that lies first ahead.
void add_weights(device::GroupedParams& params, const GroupedConfig& config,
                 const GroupedOperands& o) {
  const ExpertRows of{o.experts, o.output.columns, o.expert_rows};
  const bool is_pair = device::layout_of(config).halves == 2;
  params.gate_last = is_pair && o.up.address < o.weights.address ? 1 : 0;
  if (is_pair) {
    const Matrix& first = params.gate_last != 0 ? o.up : o.weights;
    const Matrix& second = params.gate_last != 0 ? o.weights : o.up;
    params.weights = map_for_interleaved(first, second.address, of, config.columns);
  } else {
    params.weights = map_for_experts(o.weights, of, config.columns);
  }
}

void add_tokens(device::GroupedParams& params, const GroupedOperands& o) {
  for (int i = 0; i < device::kMostUnits; ++i) {
    params.tokens[i] = map_of_rows(o.tokens, (i + 1) * device::kUnitRows, Access::load);
  }
  params.tokens_address = o.tokens.address;
  params.token_row_bytes = static_cast<uint32_t>(o.tokens.stride * num_bytes(o.tokens.dtype));
  params.token_rows = static_cast<uint32_t>(o.tokens.rows);
}

void add_output(device::GroupedParams& params, const GroupedConfig& config,
                const GroupedOperands& o) {
  for (int i = 0; i < device::kRowMaps; ++i) {
    params.outputs[i] = map_of_rows(o.output, device::kTokenChunkRows >> i, Access::store,
                                    device::layout_of(config).chunk_columns);
  }
  params.output_address = o.output.address;
  params.output_row_bytes = static_cast<uint32_t>(o.output.stride * num_bytes(o.output.dtype));
  params.output_rows = static_cast<uint32_t>(o.output.rows);
}

// But for where they lie.
bool are_alike(const Matrix& a, const Matrix& b) {
  return a.rows == b.rows && a.columns == b.columns && a.stride == b.stride && a.dtype == b.dtype;
}

}  // namespace

device::GroupedParams grouped_params(const GroupedConfig& config, const GroupedOperands& operands) {
  check_operands(config, operands);
  const device::GroupedLayout layout = device::layout_of(config);
  const GroupedOperands& o = operands;
  const int64_t k = o.tokens.columns, n = o.output.columns;
  device::GroupedParams params{};
  add_weights(params, config, o);
  add_tokens(params, o);
  add_output(params, config, o);
  params.rows_of_expert = pointer<int32_t>(o.rows_of_expert);
  params.sources = pointer<int32_t>(o.sources);
  params.targets = pointer<int32_t>(o.targets);
  params.row_weights = pointer<float>(o.row_weights);
  params.tickets = reinterpret_cast<uint32_t*>(o.tickets);
  params.experts = static_cast<uint32_t>(o.experts);
  params.low_from = static_cast<uint32_t>(o.experts - o.low_experts);
  params.entry_rows = static_cast<uint32_t>(o.entry_rows);
  params.output_columns = static_cast<uint32_t>(n);
  params.column_blocks =
      static_cast<uint32_t>((n + layout.stored_columns - 1) / layout.stored_columns);
  params.num_k = static_cast<uint32_t>((k + kTileK - 1) / kTileK);
  params.k_bytes = static_cast<uint32_t>(k * num_bytes(o.tokens.dtype));
  params.band = kBand;
  params.most_rows = static_cast<uint32_t>(o.most_rows);
  params.per = static_cast<uint32_t>(o.per);
  params.is_partition_early = o.is_partition_early ? 1 : 0;
  params.stored = reinterpret_cast<uint32_t*>(o.stored);
  params.awaited = reinterpret_cast<uint32_t*>(o.ahead.words);
  params.ahead_rows = static_cast<uint32_t>(o.ahead.rows);
  params.ahead_low_from = static_cast<uint32_t>(o.ahead.low_from);
  params.ahead_times = static_cast<uint32_t>(o.ahead.times);
  return params;
}

CountedTiles counted_tiles(const GroupedConfig& config, const GroupedOperands& operands) {
  const int64_t across = device::layout_of(config).stored_columns;
  const int64_t blocks = (operands.output.columns + across - 1) / across;
  return {operands.stored, config.rows, operands.experts - operands.low_experts,
          blocks * config.ranges};
}

void change_matrices(device::GroupedParams& params, const GroupedConfig& config,
                     const GroupedOperands& before, const GroupedOperands& now) {
  const bool fits = are_alike(before.tokens, now.tokens) && are_alike(before.output, now.output) &&
                    are_alike(before.weights, now.weights) && are_alike(before.up, now.up) &&
                    (now.tokens.address | now.output.address | now.weights.address) % 16 == 0;
  if (!fits) {
    params = grouped_params(config, now);
    return;
  }
  if (now.weights.address != before.weights.address || now.up.address != before.up.address) {
    const bool is_pair = device::layout_of(config).halves == 2;
    // Where both lie elsewhere by as much, so does the map that has both.
    if (is_pair &&
        now.up.address - now.weights.address != before.up.address - before.weights.address) {
      check_up(now);
      add_weights(params, config, now);
    } else {
      move_map(params.weights, params.gate_last != 0 ? now.up.address : now.weights.address);
    }
  }
  if (now.tokens.address != before.tokens.address) {
    for (device::TensorMap& map : params.tokens) move_map(map, now.tokens.address);
    params.tokens_address = now.tokens.address;
  }
  if (now.output.address != before.output.address) {
    for (device::TensorMap& map : params.outputs) move_map(map, now.output.address);
    params.output_address = now.output.address;
  }
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
