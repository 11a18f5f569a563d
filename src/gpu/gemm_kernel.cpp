#include "gpu/gemm_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "gpu/kernel_words.h"
#include "stretto/error.h"

namespace stretto::cuda {
namespace {

using device::Follower;
using device::GemmConfig;
using device::OutputType;
using device::Shared;

constexpr std::array<int, 7> kTileColumns = {64, 96, 128, 160, 192, 224, 256};
constexpr const char* kSharedNames[] = {"none", "a", "b"};
constexpr const char* kOutputNames[] = {"bf16", "fp16", "fp32"};

const char* name_of(Shared shared) { return kSharedNames[static_cast<int>(shared)]; }
const char* name_of(OutputType output) { return kOutputNames[static_cast<int>(output)]; }

// Of a product and what follows it.
std::string why_halves_misfit(const GemmConfig& config) {
  if (config.follower != Follower::swiglu) return "";
  if (config.grouped && config.tile_n % 64 != 0) {
    return fmt::format(
        "of a swiglu kernel's tile half the columns are of either product, of rows that choose "
        "their matrices a multiple of 32: a tile has 64, 128, 192 or 256, not {}",
        config.tile_n);
  }
  if (config.adds > 0) {
    return "a swiglu kernel makes both products itself: it cannot add other ranks' sums to them";
  }
  return "";
}

}  // namespace

std::string describe(const GemmConfig& config) {
  return fmt::format(
      "{}x{}x{} stages {} consumers {} shared {} {} to {}{}{}{}{}{}{}{}{}{}{}{}{}", config.tile_m,
      config.tile_n, device::kTileK, config.stages, config.consumers, name_of(config.shared),
      config.bf16 ? "bf16" : "fp16", name_of(config.output), config.overlap_store ? " overlap" : "",
      config.serves ? " serves" : "", config.adds > 0 ? fmt::format(" adds {}", config.adds) : "",
      config.splits ? " splits" : "", config.phases ? " phases" : "",
      config.sources ? " sources" : "", config.moves ? " moves" : "", config.norms ? " norms" : "",
      config.bias ? " bias" : "",
      config.gathers   ? " gathers"
      : config.grouped ? " grouped"
                       : "",
      config.scatters ? " scatters" : "",
      config.follower != Follower::none ? fmt::format(" {}", name_of(config.follower)) : "");
}

std::string why_illegal(const GemmConfig& config) {
  if (config.consumers < 1 || config.consumers > 2) return "consumers must be 1 or 2";
  if (std::find(kTileColumns.begin(), kTileColumns.end(), config.tile_n) == kTileColumns.end()) {
    return fmt::format("no kernel has tiles of {} columns; there are {}", config.tile_n,
                       fmt::join(kTileColumns, ", "));
  }
  const int rows = config.tile_m / config.consumers;
  if (config.tile_m % config.consumers != 0 || (rows != 64 && rows != 128)) {
    return "each consumer must have 64 or 128 rows of the tile";
  }
  if (rows * config.tile_n > 64 * 256) return "a consumer's registers hold at most 64 x 256 sums";
  if (config.stages < 2 || config.stages > 16) return "stages must be 2 to 16";
  if (config.serves && config.shared != Shared::none) {
    return "a kernel that serves has no clusters: a pair's tiles may differ in rows";
  }
  if (std::string why = why_halves_misfit(config); !why.empty()) return why;
  if (config.serves && device::layout_of(config).stored_columns % 64 != 0) {
    return fmt::format(
        "a kernel that serves stores parts of a tile, which begin at any row of 128 bytes only: "
        "its tiles have {} columns",
        config.follower == Follower::swiglu ? "128 or 256" : "64, 128, 192 or 256");
  }
  if (std::string why = why_no_room(config.stages, device::layout_of(config).shared_bytes);
      !why.empty()) {
    return why;
  }
  if (config.adds < 0 || config.adds > kMostAdds) {
    return fmt::format("a tile can add 0 to {} sources", kMostAdds);
  }
  if (config.splits && config.shared != Shared::none) {
    return "a kernel that splits K has no clusters: a pair's tasks must agree in K";
  }
  if (config.splits && config.adds > 0 && rows * config.tile_n > 64 * 224) {
    return fmt::format(
        "a kernel that splits K and adds other ranks' sums has registers for tiles of up to "
        "128x224, not {}x{}: take tile=128x192 or a smaller one, or split-k=1",
        config.tile_m, config.tile_n);
  }
  if (config.adds > 0 && config.shared != Shared::none) {
    return "a kernel that adds other ranks' sums has no clusters: a pair's tiles may differ in "
           "them";
  }
  if (config.adds > 0 && config.output == OutputType::fp32) {
    return "only tiles of 16-bit types can add what others sent";
  }
  if (config.grouped && (config.shared != Shared::none || config.serves || config.adds > 0 ||
                         config.splits || config.phases || config.moves)) {
    return "a kernel of rows that choose their matrices has no clusters, serves no fewer rows, "
           "adds "
           "nothing, and neither splits K nor moves";
  }
  if (config.sources && (!config.phases || config.shared != Shared::none || config.serves)) {
    return "a kernel of several ranks' K has phases, no clusters, and serves no fewer rows";
  }
  if (config.norms && (config.shared != Shared::none || config.serves || config.grouped ||
                       config.moves || config.sources || config.output == OutputType::fp32)) {
    return "a kernel that norms rows behind its tiles has 16-bit outputs, no clusters, movers "
           "or phases by source, serves no fewer rows, and its rows choose no matrices";
  }
  if (config.grouped && config.output == OutputType::fp32) {
    return "tiles of rows that choose their matrices are stored in 16 bits";
  }
  if ((config.gathers || config.scatters) && !config.grouped) {
    return "rows are gathered and scattered for entries of a partition only";
  }
  return "";
}

std::string gemm_source(const GemmConfig& config) {
  if (const std::string why = why_illegal(config); !why.empty()) throw UsageError(why);
  return fmt::format(R"(#include "stretto/device/gemm_mover.h"
using namespace stretto::device;
constexpr GemmConfig kConfig{{.tile_m = {}, .tile_n = {}, .stages = {}, .consumers = {},
                             .shared = Shared::{}, .bf16 = {}, .output = OutputType::{},
                             .overlap_store = {}, .serves = {}, .adds = {}, .splits = {},
                             .phases = {}, .sources = {}, .moves = {}, .norms = {},
                             .follower = Follower::{}, .bias = {},
                             .grouped = {}, .gathers = {}, .scatters = {}}};
extern "C" __global__ void __launch_bounds__(layout_of(kConfig).threads, 1)
stretto_gemm(const __grid_constant__ {} params) {{
  {};
}}
)",
                     config.tile_m, config.tile_n, config.stages, config.consumers,
                     name_of(config.shared), config.bf16, name_of(config.output),
                     config.overlap_store, config.serves, config.adds, config.splits, config.phases,
                     config.sources, config.moves, config.norms, name_of(config.follower),
                     config.bias, config.grouped, config.gathers, config.scatters,
                     config.moves   ? "GemmMoverParams"
                     : config.norms ? "GemmRowsParams"
                                    : "GemmParams",
                     config.moves   ? "gemm_with_movers<kConfig>(params)"
                     : config.norms ? "gemm_sm90<kConfig>(params.gemm, blockIdx.x, &params.rows)"
                                    : "gemm_sm90<kConfig>(params, blockIdx.x)");
}

GemmKernel::GemmKernel(const Device& device, const Compiler& compiler, const GemmConfig& config)
    : config_(config),
      kernel_(compiler.compile(gemm_source(config), device.arch()).cubin, "stretto_gemm",
              device::shared_bytes_of(config)) {}

void GemmKernel::launch(const Stream& stream, int blocks, const device::GemmParams& params,
                        bool overlap) const {
  const device::GemmLayout layout = device::layout_of(config_);
  STRETTO_ASSERT(!config_.moves && !config_.norms, "movers and rows come with tables of their own");
  STRETTO_ASSERT(blocks > 0 && blocks % layout.cluster == 0, "blocks of a cluster stay together");
  kernel_.launch(stream, blocks, layout.threads, layout.cluster, &params, overlap);
}

void GemmKernel::launch(const Stream& stream, int blocks, const device::GemmRowsParams& params,
                        bool overlap) const {
  const device::GemmLayout layout = device::layout_of(config_);
  STRETTO_ASSERT(config_.norms && blocks > 0, "a kernel that norms, and tiles for it");
  kernel_.launch(stream, blocks, layout.threads, layout.cluster, &params, overlap);
}

void GemmKernel::launch(const Stream& stream, int blocks, const device::GemmMoverParams& params,
                        bool overlap) const {
  const device::GemmLayout layout = device::layout_of(config_);
  STRETTO_ASSERT(config_.moves && blocks > 0, "a kernel with movers, and tiles for others");
  STRETTO_ASSERT(blocks % layout.cluster == 0, "blocks of a cluster stay together");
  STRETTO_ASSERT(params.first_multiplier == device::mover_blocks(config_, params.num_movers),
                 "movers come first, in whole clusters");
  kernel_.launch(stream, static_cast<int>(params.first_multiplier) + blocks, layout.threads,
                 layout.cluster, &params, overlap);
}

}  // namespace stretto::cuda
