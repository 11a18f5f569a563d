#include "gpu/grouped_operands.h"

#include <fmt/format.h>

#include "stretto/error.h"

namespace stretto::cuda {
namespace {

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

}  // namespace stretto::cuda
