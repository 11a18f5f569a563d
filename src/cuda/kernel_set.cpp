#include "cuda/kernel_set.h"

#include <algorithm>
#include <utility>

#include "cuda/gemm_choice.h"
#include "cuda/gemm_kernel.h"
#include "cuda/low_latency.h"
#include "cuda/rank_program.h"
#include "cuda/sync_kernels.h"
#include "cuda/test_data.h"

namespace stretto::cuda {
namespace {

struct Tile {
  int rows, columns;
};
constexpr Tile kTiles[] = {{128, 256}, {128, 128}, {128, 64}, {64, 128}, {64, 64}};
constexpr Tile kReducedTiles[] = {{128, 256}, {128, 192}, {128, 128}};
constexpr Tile kSplitTiles[] = {{128, 192}, {128, 128}};
constexpr Tile kGatheredTiles[] = {{128, 256}, {128, 224}, {128, 128}};

// Kernels of one architecture, in the order in which they are added.
class KernelList {
 public:
  explicit KernelList(const std::string& arch) : hopper_(arch == "sm_90a") {}

  void add_gemm(const device::GemmConfig& config) {
    add(
        "gemm " + describe(config), [&] { return gemm_source(config); }, true);
  }
  void add_low_latency(const LowLatencyShape& shape) {
    add(
        "collective " + shape.kernel.kernel,
        [&] { return lang_source(shape.kernel, kLowLatencyThreads); }, false);
  }
  void add_others() {
    add("mover", mover_source, true);
    add("stream waits and notifies", sync_source, false);
    add("test data", test_data_source, false);
  }
  std::vector<KernelEntry> take() { return std::move(entries_); }

 private:
  template <typename Source>
  void add(std::string name, const Source& source, bool needs_hopper) {
    if (needs_hopper && !hopper_) {
      entries_.push_back({std::move(name), "", "it needs Hopper's TMA and wgmma (sm_90a)"});
    } else {
      entries_.push_back({std::move(name), source(), ""});
    }
  }

  const bool hopper_;
  std::vector<KernelEntry> entries_;
};

}  // namespace

const std::vector<std::string>& known_archs() {
  static const std::vector<std::string> archs = {"sm_90a", "sm_89", "sm_80"};
  return archs;
}

std::vector<KernelEntry> kernel_set(const std::string& arch) {
  KernelList set(arch);
  for (const DType input : {DType::bf16, DType::fp16}) {
    for (const DType output : {input, DType::fp32}) {
      for (const Tile& tile : kTiles) {
        set.add_gemm(config_of(input, output, tile.rows, tile.columns));
      }
    }
  }
  for (const DType input : {DType::bf16, DType::fp16}) {
    for (const Tile& tile : kTiles) {
      device::GemmConfig config = config_of(input, input, tile.rows, tile.columns);
      config.serves = true;
      set.add_gemm(config);
    }
  }
  // Reductions that add to own tiles what the others sent, on 2, 4 and 8 ranks.
  for (const DType input : {DType::bf16, DType::fp16}) {
    for (const Tile& tile : kReducedTiles) {
      for (const int sources : {1, 3, 7}) {
        device::GemmConfig config = config_of(input, input, tile.rows, tile.columns);
        config.adds = sources;
        set.add_gemm(config);
      }
    }
  }
  // Tiles whose K is split, for gathers and for reductions on 8 ranks.
  for (const Tile& tile : kSplitTiles) {
    for (const int sources : {0, 7}) {
      device::GemmConfig config = config_of(DType::bf16, DType::bf16, tile.rows, tile.columns);
      config.adds = sources;
      config.splits = true;
      set.add_gemm(config);
    }
  }
  // Gathers whose comm lanes are blocks of the kernel, with whole rows and in phases of K.
  for (const DType input : {DType::bf16, DType::fp16}) {
    for (const Tile& tile : kGatheredTiles) {
      device::GemmConfig config = config_of(input, input, tile.rows, tile.columns);
      config.moves = true;
      set.add_gemm(config);
      config.phases = true;
      set.add_gemm(config);
    }
  }
  // Collectives for few rows, with up to 4 ranks and with more, of few bytes and of many.
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    for (const int ranks : {4, 8}) {
      for (const CollectiveKind kind : {CollectiveKind::all_gather, CollectiveKind::reduce_scatter,
                                        CollectiveKind::all_reduce}) {
        for (const int64_t count : {int64_t{1} << 12, int64_t{1} << 24}) {
          const bool one_hop = kind != CollectiveKind::all_reduce;
          if (one_hop && count > 1 << 12) continue;  // the same kernel
          set.add_low_latency(low_latency_shape({kind, dtype, 0, 0, count, count}, ranks, 1));
        }
      }
    }
  }
  set.add_others();
  return set.take();
}

std::vector<KernelEntry> kernels_of(const Plan& plan, const std::string& arch, bool serves) {
  KernelList set(arch);
  const bool multiplies = std::any_of(plan.lanes.begin(), plan.lanes.end(), [](const Lane& lane) {
    return std::any_of(lane.instrs.begin(), lane.instrs.end(),
                       [](const Instr& instr) { return instr.op == Opcode::gemm; });
  });
  if (multiplies && !plan.library_gemms) {
    const RankProgram program = std::move(programs_of(plan).front());
    set.add_gemm(config_for(plan, *program.sums, program.needs, serves));
  }
  if (plan.low_latency_collectives) {
    for (const Lane& lane : plan.lanes) {
      if (lane.kind != LaneKind::nccl || lane.rank != 0) continue;
      for (const Instr& instr : lane.instrs) {
        if (instr.op != Opcode::collective) continue;
        const LowLatencyCall call = low_latency_sizes(plan, instr);
        if (call.count > 0) set.add_low_latency(low_latency_shape(call, plan.ranks(), 1));
      }
    }
  }
  set.add_others();
  return set.take();
}

}  // namespace stretto::cuda
