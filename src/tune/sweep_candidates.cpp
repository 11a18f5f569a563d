#include <algorithm>
#include <cstdint>
#include <span>

#include "schedule/gather_order.h"
#include "stretto/tune.h"
#include "tune/phased_gathers.h"
#include "tune/predict.h"
#include "tune/sweep.h"

namespace stretto {
namespace {

constexpr int kChunks[] = {1, 2, 4};

// Points of the fused preset and of slices by copy engines that were found fastest on some shape
// against their prediction; measured where that is not so much slower than the best of all.
struct FoundPoint {
  Mover mover;
  SweptTile tile;
  int comm_sms, k_phases, swizzle;
};
constexpr FoundPoint kFoundGathers[] = {
    {Mover::comm_blocks, {128, 192}, 4, 4, 8}, {Mover::comm_blocks, {128, 256}, 8, 4, 8},
    {Mover::comm_blocks, {128, 256}, 8, 8, 8}, {Mover::comm_blocks, {128, 224}, 4, 4, 8},
    {Mover::comm_blocks, {128, 128}, 8, 4, 8}, {Mover::comm_blocks, {128, 96}, 8, 4, 8},
    {Mover::comm_blocks, {128, 64}, 8, 8, 8},  {Mover::copy_engine, {128, 192}, 0, 1, 8},
    {Mover::copy_engine, {128, 256}, 0, 1, 8}};
constexpr FoundPoint kFoundReductions[] = {{Mover::epilogue, {128, 256}, 0, 1, 16},
                                           {Mover::epilogue, {128, 192}, 0, 1, 16},
                                           {Mover::copy_engine, {128, 256}, 0, 1, 8}};
constexpr double kTooSlow = 1.3;

// Tiles of a wave that begin together read B from memory once, of which the simulation knows less
// than half (docs/notes/in-step.md). Phases of K only where the first rows' flight is not hidden.
constexpr FoundPoint kTogether[] = {{Mover::comm_blocks, {128, 256}, 8, 8, 8},
                                    {Mover::comm_blocks, {128, 256}, 4, 8, 8},
                                    {Mover::comm_blocks, {128, 224}, 4, 8, 8},
                                    {Mover::comm_blocks, {128, 192}, 4, 8, 8},
                                    {Mover::comm_blocks, {128, 128}, 8, 4, 8}};
// Clusters load B once for two tiles, which the simulation does not know either: with these, where
// there are more tiles than a wave has.
constexpr FoundPoint kPaired[] = {{Mover::comm_blocks, {128, 256}, 8, 8, 8},
                                  {Mover::comm_blocks, {128, 256}, 4, 8, 8},
                                  {Mover::comm_blocks, {128, 192}, 8, 8, 8}};
// Beside cuBLAS: SMs that push.
constexpr int kPushers = 8;

// Split K is measured where the simulation finds it so much faster than the same tiles with a whole
// K, and ranges of it are not too short; at most so many.
constexpr size_t kMostSplits = 2;

// NCCL on parts of the result is measured where the simulation finds nothing so much faster.
constexpr double kClearlyFaster = 1.1;

void add_together(Sweep& sweep, const Segment& op, const Machine& machine) {
  if (op.makes_terms() || op.ranks == 1) return;
  const bool hides = !own_tiles_fill(op, machine);
  for (const FoundPoint& point : kTogether) {
    Schedule found = fused_tiles(op, machine);
    found.start = Start::wave;
    set_size(found, point.tile, point.comm_sms);
    found.k_phases = hides && op.k >= kShortestPhase * point.k_phases ? point.k_phases : 1;
    sweep.add(found);
  }
}

void add_paired(Sweep& sweep, const Segment& op, const Machine& machine) {
  if (op.makes_terms() || op.ranks == 1) return;
  const bool hides = !own_tiles_fill(op, machine);
  for (const FoundPoint& point : kPaired) {
    if (op.m * op.local_n() <= int64_t{machine.sms} * point.tile.m * point.tile.n) continue;
    Schedule found = fused_tiles(op, machine);
    found.cluster = 2;
    set_size(found, point.tile, point.comm_sms);
    found.k_phases = hides && op.k >= kShortestPhase * point.k_phases ? point.k_phases : 1;
    found.start = Start::wave;
    sweep.add(found);
  }
}

// cuBLAS beside copy engines, and beside blocks that push; gathered shards one by one, or few
// products: the own rows, then what has come by then, then the rest.
void add_decomposed(Sweep& sweep, const Segment& op, const Machine& machine) {
  Schedule decomposed = find_preset("decomposed").make(op, machine);
  decomposed.gemm = GemmBy::library;
  for (const Reuse reuse : {Reuse::ack, Reuse::double_buffer}) {
    decomposed.reuse = reuse;
    sweep.add(decomposed);
  }
  if (op.makes_terms()) return;
  if (const int half = op.ranks / 2; half > 1) {
    decomposed.groups = {1, half - 1, op.ranks - half};
    sweep.add(decomposed);
  }
  decomposed.groups.clear();
  if (op.ranks > 2) decomposed.groups = {1, op.ranks - 1};
  decomposed.mover = Mover::comm_blocks;
  decomposed.comm_sms = kPushers;
  sweep.add(decomposed);
}

// What was found fastest on some shape against its prediction.
void add_found(Sweep& sweep, const Segment& op, const Machine& machine) {
  for (const FoundPoint& point : op.makes_terms() ? std::span<const FoundPoint>(kFoundReductions)
                                                  : std::span<const FoundPoint>(kFoundGathers)) {
    const bool phases = point.k_phases > 1;
    const bool hides = op.ranks > 1 && !own_tiles_fill(op, machine);  // the first rows' flight
    const bool by_source = op.exchanges_input();  // as many phases as ranks, or one
    if (phases && !by_source && (!hides || op.k < kShortestPhase * point.k_phases)) continue;
    // Copy engines send sums by the slice.
    const bool slices = op.makes_terms() && point.mover == Mover::copy_engine;
    Schedule found = slices ? find_preset("slices").make(op, machine) : fused_tiles(op, machine);
    found.mover = point.mover;
    set_size(found, point.tile, point.comm_sms);
    if (!by_source) found.k_phases = point.k_phases;
    found.swizzle = point.swizzle;
    if (point.mover == Mover::copy_engine) found.reuse = Reuse::double_buffer;
    sweep.add(found);
  }
  add_together(sweep, op, machine);
  add_paired(sweep, op, machine);
  add_decomposed(sweep, op, machine);
}

}  // namespace

std::vector<Candidate> sweep_candidates(const Segment& op, const Machine& machine, size_t more) {
  Sweep sweep(op, machine);
  add_usual(sweep, op, machine);
  const size_t num_given = sweep.schedules().size();
  add_found(sweep, op, machine);
  const size_t num_found = sweep.schedules().size();

  Schedule tiles = fused_tiles(op, machine);
  Schedule whole = tiles;  // the smallest of the usual ones
  set_size(whole, {128, 128}, op.makes_terms() ? 0 : 12);
  Schedule split = whole;
  split.k_phases = 1;
  for (const int splits : kSplits) {
    split.split_k = splits;
    if (op.local_k() >= kShortestRange * splits) sweep.add(split);
  }
  const size_t num_splits = sweep.schedules().size();

  sweep.add_sizes(tiles);
  tiles.order = op.makes_terms() ? Order::peer_staggered : Order::own_first;
  sweep.add_sizes(tiles);
  Schedule decomposed = find_preset("decomposed").make(op, machine);
  for (const int chunks : kChunks) {
    decomposed.chunks = chunks;
    for (const SweptTile& tile : kSweptTiles) {
      decomposed.tile_m = tile.m;
      decomposed.tile_n = tile.n;
      sweep.add(decomposed);
    }
  }

  sweep.require_some();
  const std::vector<Schedule>& schedules = sweep.schedules();
  Predictions predictions(machine);
  const std::vector<double> predicted = predictions.us(op, schedules);
  const double best = *std::min_element(predicted.begin(), predicted.end());
  const auto unsplit =
      static_cast<size_t>(std::find(schedules.begin(), schedules.end(), whole) - schedules.begin());
  std::vector<Candidate> candidates, split_ones, others;
  for (size_t i = 0; i < predicted.size(); ++i) {
    const bool parts_by_nccl =
        schedules[i].mover == Mover::nccl && schedules[i].granularity != Granularity::whole;
    if (i < num_given && parts_by_nccl && predicted[i] > best * kClearlyFaster) continue;
    const bool is_found = i >= num_given && i < num_found;
    if (is_found && predicted[i] > best * kTooSlow) continue;
    const bool is_split = i >= num_found && i < num_splits;
    if (is_split && predicted[i] * kClearlyFaster > predicted[unsplit]) continue;
    (i < num_found ? candidates
     : is_split    ? split_ones
                   : others)
        .push_back({schedules[i], predicted[i]});
  }
  const auto add_best = [&](std::vector<Candidate>& of, size_t most) {
    sort_by_prediction(of);
    of.resize(std::min(of.size(), most));
    candidates.insert(candidates.end(), of.begin(), of.end());
  };
  add_best(split_ones, kMostSplits);
  // Where the simulation finds nothing faster.
  std::vector<Candidate> phased = phased_gathers(op, machine, SIZE_MAX, predictions);
  std::erase_if(phased, [&](const Candidate& one) {
    const auto same = [&](const Candidate& other) { return other.schedule == one.schedule; };
    return one.predicted_us > best || std::any_of(candidates.begin(), candidates.end(), same);
  });
  add_best(phased, kMostPhased);
  add_best(others, more);
  return candidates;
}

}  // namespace stretto
