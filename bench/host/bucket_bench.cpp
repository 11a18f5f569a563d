// What the host does for a new bucket of a server, for all ranks in one process: the choice of a
// schedule, the plan, whether it can run and serve, and every rank's task tables. Not what needs a
// GPU.
#include <benchmark/benchmark.h>

#include "stretto/check.h"
#include "stretto/error.h"
#include "stretto/lower.h"
#include "stretto/serve.h"
#include "stretto/tune.h"
#include "tables/plan_limits.h"
#include "tables/plan_tables.h"

namespace stretto::bench {
namespace {

// Addresses that nothing is behind.
cuda::BufferPlaces places_of(const Plan& plan) {
  cuda::BufferPlaces places(static_cast<size_t>(plan.ranks()));
  for (size_t rank = 0; rank < places.size(); ++rank) {
    for (const Buffer& buffer : plan.buffers) {
      places[rank].emplace_back(buffer.copies, cuda::DevicePtr{(rank + 1) << 40});
    }
  }
  return places;
}

using Choose = Schedule (*)(const Segment& op, const Machine& machine);

Schedule take_tiles(const Segment& op, const Machine& machine) {
  return parse_schedule("tiles,rows=bucket", op, machine);
}

// Of a server that knows what is shipped.
Schedule take_auto(const Segment& op, const Machine& machine) {
  static const Tuning tuning = shipped_tuning();
  return served_schedule(op, machine, tuning).schedule;
}

constexpr ProductKind kKinds[] = {kAgGemm, kGemmRs, kGemmAr};

void new_bucket(benchmark::State& state, Choose choose) {
  const ProductKind kind = kKinds[state.range(0)];
  const auto ranks = static_cast<int>(state.range(2));
  const Segment op{kind, state.range(1), 8192, 8192, ranks, DType::bf16};
  const Machine machine = default_machine(ranks);
  choose(op, machine);  // reads what it chooses by
  for (auto _ : state) {
    const Schedule schedule = choose(op, machine);
    const Plan plan = lower(op, schedule, machine);
    const auto sums = std::make_shared<const cuda::TileSums>(plan);
    STRETTO_ASSERT(cuda::why_not_on_cuda(plan, *sums).empty() && why_not_served(plan).empty() &&
                       why_not_resident(plan, machine.sms).empty(),
                   "the plan serves on GPUs");
    const std::vector<cuda::RankProgram> programs = cuda::programs_of(plan, sums);
    const cuda::SignalLayout signals(plan, programs, true);
    const cuda::BufferPlaces places = places_of(plan);
    for (int rank = 0; rank < ranks; ++rank) {
      benchmark::DoNotOptimize(
          tables_for(plan, rank, programs[static_cast<size_t>(rank)], places, signals, true));
    }
  }
  state.SetLabel(to_string(op));
  state.counters["a rank"] = benchmark::Counter(
      ranks, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void buckets(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"op", "m", "ranks"})->Unit(benchmark::kMillisecond);
  for (int64_t kind = 0; kind < std::ssize(kKinds); ++kind) {
    for (const int64_t m : {512, 2048, 4096, 8192}) bench->Args({kind, m, 8});
  }
}

void new_bucket(benchmark::State& state) { new_bucket(state, take_tiles); }
void new_bucket_by_auto(benchmark::State& state) { new_bucket(state, take_auto); }

// The choice by itself.
void choose_for_bucket(benchmark::State& state) {
  const ProductKind kind = kKinds[state.range(0)];
  const auto ranks = static_cast<int>(state.range(2));
  const Segment op{kind, state.range(1), 8192, 8192, ranks, DType::bf16};
  const Machine machine = default_machine(ranks);
  take_auto(op, machine);
  for (auto _ : state) benchmark::DoNotOptimize(take_auto(op, machine));
  state.SetLabel(to_string(op));
}

BENCHMARK(new_bucket)->Apply(buckets);
BENCHMARK(new_bucket_by_auto)->Apply(buckets);
BENCHMARK(choose_for_bucket)->Apply(buckets);

}  // namespace
}  // namespace stretto::bench
