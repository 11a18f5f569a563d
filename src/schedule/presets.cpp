// The presets: each stands for systems that others have built, on our kernels; `library` on
// cuBLAS.
#include <algorithm>
#include <vector>

#include "core/ceil_div.h"
#include "schedule/default_tile.h"
#include "schedule/few_rows.h"
#include "schedule/fused_point.h"
#include "schedule/gather_order.h"
#include "schedule/look_up_point.h"
#include "schedule/low_latency.h"
#include "schedule/routed_point.h"
#include "stretto/schedule.h"

namespace stretto {
namespace {

// Eight movers or reducers saturate an NVLink port in large pieces; more only take SMs from tiles.
constexpr int kCommSms = 8;

Schedule finish(Schedule schedule, const Segment& op, const Machine& machine) {
  schedule.partials = op.dtype;
  schedule.comm_sms = std::clamp(schedule.comm_sms, 0, std::max(0, machine.sms - 1));
  const TileShape tile = default_tile(op, machine.sms - schedule.comm_sms);
  schedule.tile_m = tile.m;
  schedule.tile_n = tile.n;
  return schedule;
}

Schedule with_nccl(Granularity granularity, Sync sync, const Segment& op) {
  Schedule schedule;
  schedule.granularity = granularity;
  schedule.order = Order::plain;
  schedule.mover = Mover::nccl;
  schedule.sync = sync;
  schedule.reduction = op.makes_terms() ? Reduction::nccl : Reduction::none;
  return schedule;
}

Reduction fixed_order(const Segment& op) {
  if (!op.makes_terms()) return Reduction::none;
  return op.adds_for_all() ? Reduction::two_shot : Reduction::slots;
}

Order staggered(const Segment& op, const Machine& machine) {
  if (machine.ranks_per_node > 0 && op.ranks > machine.ranks_per_node) {
    return Order::node_then_local;  // the network is slower: it must be busy first (or read last)
  }
  // Tiles behind an all-to-all need a part of every rank's.
  if (op.exchanges_input()) return Order::arrival;
  return op.sends_tiles() ? Order::peer_staggered : Order::own_first;
}

Schedule make_sequential(const Segment& op, const Machine& machine) {
  if (op.is_routed()) return routed_sequential(op, machine, GemmBy::tiles);
  if (op.looks_up()) return look_ups_sequential(op, machine);
  return finish(with_nccl(Granularity::whole, Sync::event, op), op, machine);
}

// What brings a product its input has no tiles, and a boundary or each piece's wait stands before
// those of the product: it goes at once, and chunks hide nothing more.
Schedule moved_at_once(Schedule schedule) {
  schedule.granularity = Granularity::whole;
  schedule.sync = Sync::event;
  schedule.chunks = 1;
  return schedule;
}

Schedule make_library(const Segment& op, const Machine& machine) {
  if (op.is_routed()) return routed_sequential(op, machine, GemmBy::library);
  Schedule schedule = make_sequential(op, machine);
  if (!op.only_moves()) schedule.gemm = GemmBy::library;
  return schedule;
}

Schedule make_decomposed(const Segment& op, const Machine& machine);

// Where the device language cannot make them, collectives stay NCCL's, which one rank has none of.
Schedule make_low_latency(const Segment& op, const Machine& machine) {
  const bool is_fast = why_no_low_latency(op, machine, RowCount::fixed).empty();
  if (op.only_moves() && !is_fast) {
    // Collectives are of one kind in a plan, and NCCL's would be those of products.
    return op.is_routed() ? routed_few_rows(op, machine)
                          : moved_at_once(make_decomposed(op, machine));
  }
  Schedule schedule = op.only_moves() ? make_sequential(op, machine) : make_library(op, machine);
  if (is_fast || (op.is_routed() && op.ranks > 1)) {
    schedule.collectives = CollectivesBy::low_latency;
  }
  return schedule;
}

// What its kernel does not multiply, or not in a round, cuBLAS multiplies.
Schedule make_few_rows(const Segment& op, const Machine& machine) {
  Schedule schedule = make_low_latency(op, machine);
  const bool collects = schedule.collectives == CollectivesBy::low_latency;
  if (collects && !op.only_moves() && why_no_few_rows(op).empty() &&
      sends_in_time(op, machine.sms)) {
    schedule.gemm = GemmBy::few_rows;
  }
  return schedule;
}

Schedule make_two_chunk(const Segment& op, const Machine& machine) {
  Schedule schedule = with_nccl(Granularity::chunk, Sync::event, op);
  schedule.chunks = 2;
  schedule.comm_sms = machine.nccl_sms;
  if (op.is_dense() && op.only_moves()) schedule = moved_at_once(schedule);
  return finish(schedule, op, machine);
}

Schedule make_decomposed(const Segment& op, const Machine& machine) {
  if (op.looks_up()) return look_ups_copied(op, machine);
  Schedule schedule;
  schedule.granularity = Granularity::chunk;
  schedule.order = staggered(op, machine);
  schedule.mover = Mover::copy_engine;
  schedule.sync = Sync::event;
  schedule.reduction = fixed_order(op);
  // A copy engine is told addresses by the host, which a captured graph repeats: they cannot
  // alternate by epoch.
  schedule.reuse = Reuse::ack;
  // Few tiles of own rows fill a kernel: two of them have a half each.
  if (op.exchanges_input() && !op.only_moves()) schedule.chunks = 2;
  if (op.exchanges_output() && op.ranks > 1) {
    schedule.groups = {op.ranks - op.ranks / 2, op.ranks / 2};
  }
  return finish(schedule, op, machine);
}

Schedule make_waves(const Segment& op, const Machine& machine) {
  Schedule schedule = with_nccl(Granularity::waves, Sync::counter, op);
  schedule.comm_sms = machine.nccl_sms;
  if (op.is_dense() && op.only_moves()) schedule = moved_at_once(schedule);
  return finish(schedule, op, machine);
}

// Tiles of own rows are few: movers take only what leaves them as many waves. Epilogues need none.
int exchange_sms(const Segment& op, const Machine& machine) {
  if (op.sends_tiles() || !problems(op).empty()) return 0;
  const auto waves = [&](int comm_sms) {
    const int64_t sms = std::max(1, machine.sms - comm_sms);
    const TileShape tile = default_tile(op, static_cast<int>(sms));
    const int64_t tiles = ceil_div(op.local_m(), tile.m) * ceil_div(op.local_n(), tile.n);
    return static_cast<double>(ceil_div(tiles, sms)) * tile.m * tile.n;
  };
  int most = kCommSms;
  while (most > 2 && waves(most) > waves(2)) --most;
  return most;
}

// Behind an all-to-all tiles begin with what their rank has of K, where that is whole steps.
int phases_by_source(const Segment& op) {
  constexpr int kMostRanks = 16;
  if (!op.exchanges_input() || op.weights != 1 || op.ranks > kMostRanks) return 1;
  if (!problems(op).empty()) return 1;
  return op.shares_of(op.k).block() % kSplitStep == 0 ? op.ranks : 1;
}

// Where they begin when all of their rows are whole, the last of few waves is long in beginning:
// halves of tiles leave others to be computed meanwhile.
void halve_few_tiles(Schedule& schedule, const Segment& op, const Machine& machine) {
  constexpr int64_t kFewWaves = 4;
  constexpr int kWide = 256;
  if (!op.exchanges_input() || op.ranks == 1 || schedule.k_phases > 1 || schedule.tile_n < kWide) {
    return;
  }
  const int64_t lanes = std::max(1, machine.sms - schedule.comm_sms);
  const int64_t tiles =
      ceil_div(op.local_m(), schedule.tile_m) * ceil_div(op.local_n(), schedule.tile_n);
  if (tiles <= kFewWaves * lanes) schedule.tile_n /= 2;
}

Schedule make_fused(Granularity granularity, Sync sync, const Segment& op, const Machine& machine) {
  Schedule schedule;
  schedule.granularity = granularity;
  schedule.order = staggered(op, machine);
  // Shard by shard, the tiles of a shard that is under way would wait while others lie there.
  if (schedule.order == Order::own_first) schedule.order = Order::arrival;
  schedule.mover = op.sends_tiles() ? Mover::epilogue : Mover::comm_blocks;
  schedule.sync = sync;
  schedule.reduction = fixed_order(op);
  schedule.comm_sms = op.exchanges() ? exchange_sms(op, machine) : kCommSms;
  schedule = finish(schedule, op, machine);
  schedule.k_phases = phases_by_source(op);
  halve_few_tiles(schedule, op, machine);
  return schedule;
}

// Who computes a tile of its own adds to it at once what the others sent: no SMs are set aside.
Schedule make_tiles(const Segment& op, const Machine& machine) {
  if (op.is_routed()) return routed_tiles(op, machine);
  if (op.looks_up()) return look_ups_pushed(op, machine, Granularity::tile);
  Schedule schedule = make_fused(Granularity::tile, Sync::flag, op, machine);
  if (op.exchanges()) {
    if (schedule.order == Order::peer_staggered) schedule.order = Order::interleaved;
    return schedule;
  }
  if (op.only_moves()) return schedule;
  const FusedPoint point = fused_point(op, machine, schedule.comm_sms);
  schedule.comm_sms = point.comm_sms;
  schedule.tile_m = point.tile.m;
  schedule.tile_n = point.tile.n;
  if (schedule.order == Order::peer_staggered) schedule.order = Order::interleaved;
  if (op.ranks == 1 || !op.gathers()) return schedule;
  // Out of step, each lane would read B by itself.
  if (is_larger_than_cache(op, machine)) schedule.start = Start::wave;
  if (goes_in_sweeps(op, machine)) schedule.order = staggered(op, machine);
  return schedule;
}

Schedule make_slices(const Segment& op, const Machine& machine) {
  if (op.is_routed()) {
    Schedule schedule = routed_tiles(op, machine);
    schedule.sync = Sync::counter;
    return schedule;
  }
  if (op.looks_up()) return look_ups_pushed(op, machine, Granularity::slice);
  return make_fused(Granularity::slice, Sync::counter, op, machine);
}

constexpr Preset kPresets[] = {
    {"sequential",
     "a GEMM, then NCCL: the library path with our GEMM. Of experts: a dispatch, grouped GEMMs and "
     "a combine one after the other, as DeepEP's in order, but by NCCL's gathers and sums",
     "developer.nvidia.com/nccl; deepseek-ai/DeepEP",
     "one GEMM and one collective, one after the other", make_sequential},
    {"library",
     "cuBLAS, then NCCL: what a program without Stretto does. Of experts: NCCL and a grouped GEMM "
     "as DeepGEMM's, for which ours stands",
     "developer.nvidia.com/cublas, developer.nvidia.com/nccl; deepseek-ai/DeepGEMM",
     "sequential, and cuBLAS multiplies", make_library},
    {"low-latency",
     "cuBLAS and a custom all-reduce: TensorRT-LLM, vLLM. Of rows that choose experts: DeepEP's "
     "low-latency kernels and FlashInfer's push rounds, which send rows and sums to places that "
     "nobody counts first",
     "NVIDIA/TensorRT-LLM customAllReduceKernels; vllm-project/vllm custom_all_reduce; "
     "deepseek-ai/DeepEP; flashinfer-ai/flashinfer",
     "library, and kernels whose data says itself that it came make the collective",
     make_low_latency},
    {"few-rows",
     "fused GEMM and all-reduce kernels of few rows: "
     "Triton-distributed's GEMM and all-reduce. Up to 512 rows, of sums 2048, whose tiles are "
     "there at once or sent one beside the next; elsewhere it is low-latency",
     "ByteDance-Seed/Triton-distributed",
     "low-latency, and the product's blocks send to a kernel that only receives", make_few_rows},
    {"two-chunk", "the two-chunk split that frameworks offer; FlashOverlap's baseline",
     "arXiv 2504.19519, section 2", "two half GEMMs, NCCL on the first while the second runs",
     make_two_chunk},
    {"decomposed", "AsyncTP, TransformerEngine's rings, CUTLASS distributed GEMM",
     "pytorch/pytorch torch/distributed/_symmetric_memory; NVIDIA/TransformerEngine userbuffers; "
     "NVIDIA/cutlass examples 65 and 82",
     "one GEMM kernel a shard; copy engines move the shard beside the next one's", make_decomposed},
    {"waves", "FlashOverlap", "arXiv 2504.19519; infinigence/FlashOverlap",
     "one GEMM; NCCL sends each group of waves as its counter fills, from reordered storage, which "
     "a norm behind it puts in order as it reads",
     make_waves},
    {"tiles",
     "FLUX, Triton-distributed, TileLink, ParallelKittens. Of experts: Comet and "
     "Triton-distributed's gathers and sums beside grouped GEMMs; with granularity=whole, where no "
     "tile begins before all tokens are there, FlashInfer's push rounds. Of rows that are only "
     "moved: "
     "DeepEP's high-throughput kernels",
     "arXiv 2406.06858, 2504.19442, 2503.20313, 2511.13940; Comet: 2502.19811; "
     "flashinfer-ai/flashinfer; deepseek-ai/DeepEP",
     "one GEMM whose tiles travel one by one, each behind its own flag", make_tiles},
    {"slices", "fused computation-collective operations (SC'24)", "arXiv 2305.06942",
     "one GEMM whose row blocks travel as they fill, remote ones first", make_slices},
};

}  // namespace

std::span<const Preset> presets() { return kPresets; }

}  // namespace stretto
