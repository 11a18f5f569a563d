#include "schedule/systems.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/text.h"
#include "schedule/low_latency.h"
#include "schedule/row_parts.h"

namespace stretto {
namespace {

using enum SortOfProduct;

constexpr std::string_view kByLibrary = "cuBLAS multiplies, as it may there";
constexpr std::string_view kTilesToo = "products between are by the same kernel";

constexpr NearestPoint kTritonDistributed[] = {
    {gather, "decomposed,sync=flag",
     "copy engines push shards, there they pull them behind a barrier of all ranks"},
    {scatter, "decomposed,sync=counter",
     "owners add a shard as soon as it is there, not in a kernel behind a barrier"},
    {all_reduce, "tiles,mover=comm-blocks,comm-sms=16",
     "blocks push tiles to owners, there they pull them or add in the switch; its kernel of few "
     "rows is nearest to few-rows"},
    {exchange, "tiles", "tiles go to who needs them; there copy engines may push a source's chunk"},
    {local, "tiles", kTilesToo},
    {tp_up, "tiles",
     "a mover kernel sends tokens, there copy engines do; a partition for each source where an "
     "expert has rows enough, there one of all tokens"},
    {tp_down, "tiles", "owners add sums as they come, there columns are cut in parts"},
    {ep_up, "tiles", "a mover kernel sends tokens, there blocks of the product's kernel do"},
    {ep_down, "tiles", "sums leave as tiles end, and owners add them"},
    {moved, "tiles", "ids go to all ranks, and each counts by itself"},
};

constexpr std::string_view kCometUp =
    "a mover kernel sends tokens, there copy engines or blocks of the product's kernel do; a "
    "partition for each source where an expert has rows enough";
constexpr std::string_view kCometDown =
    "sums leave as tiles end, there in parts of columns, which were slower here "
    "(docs/notes/moe.md)";

constexpr NearestPoint kComet[] = {
    {local, "tiles", kTilesToo}, {tp_up, "tiles", kCometUp},     {tp_down, "tiles", kCometDown},
    {ep_up, "tiles", kCometUp},  {ep_down, "tiles", kCometDown},
};

constexpr NearestPoint kFlux[] = {
    {gather, "decomposed,sync=flag",
     "copy engines push shards, there they pull them behind two barriers of all ranks"},
    {scatter, "tiles,order=peer-staggered",
     "the computing blocks store tiles to owners, there spare warps pull them"},
    {local, "tiles", kTilesToo},
    {tp_up, "tiles", kCometUp},
    {tp_down, "tiles", kCometDown},
    {ep_up, "tiles", kCometUp},
    {ep_down, "tiles", kCometDown},
};

constexpr std::string_view kWaves =
    "the order of tiles is the plan's, there it is measured beforehand; streams await counters, "
    "there kernels of one thread do";

constexpr NearestPoint kFlashOverlap[] = {
    {scatter, "waves", kWaves},
    {all_reduce, "waves", kWaves},
    {local, "sequential", "there and here it is the GEMM alone"},
};

constexpr std::string_view kTokenWeave =
    "sums and norms are a kernel of one half beside the products of the other, there they are "
    "added in the switch";

constexpr NearestPoint kTokenWeavePoints[] = {
    {scatter, "low-latency", kTokenWeave},
    {all_reduce, "low-latency", kTokenWeave},
    {local, "low-latency", kByLibrary},
};

constexpr NearestPoint kTileLink[] = {
    {gather, "tiles", "movers are blocks of the kernel, there copy engines or blocks, as tuned"},
    {scatter, "tiles,mover=comm-blocks,order=peer-staggered,comm-sms=8",
     "each source has a slot at the owner, there terms go round a ring and are rounded at each "
     "rank"},
    {local, "tiles", kTilesToo},
    {tp_up, "tiles", "a mover kernel sends tokens, there copy engines do"},
    {tp_down, "tiles",
     "a mover kernel sends sums as tiles end, and owners have a slot for each source"},
};

constexpr std::string_view kShards =
    "copy engines push shards beside cuBLAS, ordered by events; there they pull them, with "
    "barriers of all ranks between";

constexpr NearestPoint kAsyncTp[] = {
    {gather, "decomposed,gemm=library", kShards},
    {scatter, "decomposed,gemm=library", kShards},
    {local, "library", kByLibrary},
};

constexpr std::string_view kUserbuffers =
    "shards go straight to who needs them; there they go round a ring, and terms of sums as here "
    "or by blocks on 16 SMs";

constexpr NearestPoint kTransformerEngine[] = {
    {gather, "decomposed,gemm=library", kUserbuffers},
    {scatter, "decomposed,gemm=library", kUserbuffers},
    {local, "library", kByLibrary},
};

constexpr std::string_view kCutlass =
    "owners add slots, there a kernel takes its neighbour's sum as it begins a tile; events order "
    "kernels, there flags that they await as they start";

constexpr NearestPoint kCutlassPoints[] = {
    {gather, "decomposed", kCutlass},
    {scatter, "decomposed", kCutlass},
    {local, "sequential", kTilesToo},
};

constexpr NearestPoint kParallelKittens[] = {
    {gather, "tiles", "blocks push stripes to each rank, there once to all through the switch"},
    {scatter, "tiles,order=peer-staggered",
     "owners add slots in fp32 in the order of ranks, there bf16 is added in the owner's memory"},
    {all_reduce, "tiles,mover=comm-blocks,comm-sms=16", "owners add tiles, there the switch does"},
    {local, "tiles", kTilesToo},
};

constexpr NearestPoint kFlashInfer[] = {
    {all_reduce, "low-latency",
     "one hop of few bytes and else two, with the norm behind, as there"},
    {local, "low-latency", kByLibrary},
    {ep_up, "low-latency",
     "a token's place follows from its number, and slots take turns, so that nobody acknowledges",
     true},
    {ep_up, "library,mover=epilogue",
     "all blocks send tokens behind ids, and a partition is made behind them"},
    {ep_down, "low-latency", "sums go to the place of their token's number", true},
    {ep_down, "library,mover=epilogue,reduction=slots", "who weighs rows writes sums to owners"},
    {moved, "low-latency",
     "rows go to the place of their token's number, and from there to each of their choices", true},
    {moved, "tiles", "ids go to all ranks, and each counts by itself"},
};

constexpr std::string_view kDeepEp =
    "a token goes once to each rank of its choices and sums come back per rank, as there; ids go "
    "to all ranks first and each counts by itself, so that no host waits";

constexpr NearestPoint kDeepEpPoints[] = {
    {local, "library", kByLibrary},
    {ep_up, "library,mover=epilogue", kDeepEp},
    {ep_down, "library,mover=epilogue,reduction=slots", kDeepEp},
    {moved, "tiles", kDeepEp},
};

constexpr std::string_view kDeepEpLowLatency =
    "a token goes once to each rank, there once for each choice; sums come back per rank, there "
    "rows do";

constexpr NearestPoint kDeepEpLowLatencyPoints[] = {
    {local, "low-latency", kByLibrary},
    {ep_up, "low-latency", kDeepEpLowLatency},
    {ep_down, "low-latency", kDeepEpLowLatency},
    {moved, "low-latency", kDeepEpLowLatency},
};

// docs/notes/moe.md says why no plan has its two.
constexpr std::string_view kMegaMoe =
    "tiles begin as soon as their tokens are there, as there; but what moves and what multiplies "
    "are kernels of their own, five launches of one graph and not two";

constexpr NearestPoint kMegaMoePoints[] = {
    {local, "tiles", kTilesToo},
    {ep_up, "tiles", kMegaMoe},
    {ep_down, "tiles", kMegaMoe},
};

constexpr NearestPoint kSc24[] = {
    {all_reduce, "tiles,order=peer-staggered",
     "tiles go to owners as they are made and sums to all, as there"},
    {exchange, "slices", "the block that ends a slice says so with a counter, there with a mask"},
    {local, "tiles", kTilesToo},
    {look_up, "slices", "the block that ends a slice says so with a counter, there with a mask"},
};

constexpr NearestPoint kTensorRtLlm[] = {
    {all_reduce, "low-latency", "one hop of few bytes and else two, as there"},
    {local, "low-latency", kByLibrary},
};

constexpr NearestPoint kVllm[] = {
    {all_reduce, "low-latency",
     "data says itself that it came; there blocks of all ranks meet first, and then pull"},
    {local, "low-latency", kByLibrary},
};

constexpr System kSystems[] = {
    {"triton-distributed", "Triton-distributed",
     "arXiv 2504.19442; ByteDance-Seed/Triton-distributed", kTritonDistributed},
    {"comet", "Comet", "arXiv 2502.19811; bytedance/flux", kComet},
    {"flux", "FLUX", "arXiv 2406.06858; bytedance/flux", kFlux},
    {"flashoverlap", "FlashOverlap", "arXiv 2504.19519; infinigence/FlashOverlap", kFlashOverlap},
    {"tokenweave", "TokenWeave", "arXiv 2505.11329; microsoft/tokenweave", kTokenWeavePoints, true},
    {"tilelink", "TileLink", "arXiv 2503.20313", kTileLink},
    {"asynctp", "AsyncTP", "pytorch/pytorch torch/distributed/_symmetric_memory", kAsyncTp},
    {"transformer-engine", "TransformerEngine's userbuffers", "NVIDIA/TransformerEngine",
     kTransformerEngine},
    {"cutlass", "CUTLASS distributed GEMM", "NVIDIA/cutlass examples 65 and 82", kCutlassPoints},
    {"parallelkittens", "ParallelKittens", "arXiv 2511.13940; HazyResearch/ThunderKittens",
     kParallelKittens},
    {"flashinfer", "FlashInfer", "flashinfer-ai/flashinfer", kFlashInfer},
    {"deepep", "DeepEP and a grouped GEMM", "deepseek-ai/DeepEP; deepseek-ai/DeepGEMM",
     kDeepEpPoints},
    {"deepep-low-latency", "DeepEP's low-latency kernels", "deepseek-ai/DeepEP",
     kDeepEpLowLatencyPoints},
    {"megamoe", "MegaMoE", "deepseek-ai/DeepGEMM pull request 383", kMegaMoePoints},
    {"sc24", "fused computation-collective operations (SC'24)", "arXiv 2305.06942", kSc24},
    {"tensorrt-llm", "TensorRT-LLM's all-reduce", "NVIDIA/TensorRT-LLM customAllReduceKernels",
     kTensorRtLlm},
    {"vllm", "vLLM's all-reduce", "vllm-project/vllm custom_all_reduce", kVllm},
};

constexpr std::string_view kNamesOfSorts[] = {
#define STRETTO_TEXT(name, text) text,
    STRETTO_SORTS_OF_PRODUCT(STRETTO_TEXT)
#undef STRETTO_TEXT
};

}  // namespace

std::string_view to_string(SortOfProduct sort) { return kNamesOfSorts[static_cast<size_t>(sort)]; }

SortOfProduct sort_of(const Segment& op) {
  if (op.looks_up()) return look_up;
  if (op.is_routed() && op.only_moves()) return moved;
  if (op.is_routed()) {
    const bool has_sums = op.kind.out != Edge::none;
    if (op.kind.weight == Held::experts) return has_sums ? ep_down : ep_up;
    return has_sums ? tp_down : tp_up;
  }
  if (op.exchanges()) return exchange;
  if (op.gathers()) return gather;
  if (op.adds_for_all()) return all_reduce;
  return op.kind.out == Edge::reduce_scatter ? scatter : local;
}

std::span<const System> systems() { return kSystems; }

const System* find_system(std::string_view name) {
  const auto* const found = std::find_if(std::begin(kSystems), std::end(kSystems),
                                         [&](const System& one) { return one.name == name; });
  return found == std::end(kSystems) ? nullptr : found;
}

const NearestPoint* nearest_point(const System& system, const Segment& op, const Machine& machine) {
  const SortOfProduct sort = sort_of(op);
  for (const NearestPoint& point : system.points) {
    if (point.sort != sort) continue;
    if (point.by_ids && !why_no_low_latency(op, machine, RowCount::fixed).empty()) continue;
    return &point;
  }
  return nullptr;
}

std::string why_no_point(const System& system, std::span<const NamedProduct> products) {
  std::vector<std::string> lacks, has;
  for (const NamedProduct& one : products) {
    const std::string name = one.name.empty() ? "" : fmt::format(" ({})", one.name);
    lacks.push_back(fmt::format("{}{}", to_string(sort_of(*one.product)), name));
  }
  for (const NearestPoint& point : system.points) {
    std::string text(to_string(point.sort));
    if (point.sort == local || (!has.empty() && has.back() == text)) continue;
    has.push_back(std::move(text));
  }
  return fmt::format("{} has nothing for {}; it has {}", system.name, join(lacks, ", "),
                     join(has, ", "));
}

// Below 1024 tokens TokenWeave has its kernel alone.
int split_of(const System& system, const Operator& op) {
  constexpr int64_t kLeastRows = 1024;
  const bool splits = system.splits && op.rows() >= kLeastRows;
  return splits && why_no_split(op, 2).empty() ? 2 : 1;
}

}  // namespace stretto
